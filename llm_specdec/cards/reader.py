"""One card's text → what it says, and for every line about these matters the rule that decided.

read → clean → blocks → statements (sentences, table rows, lines of code) → rule → found
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from llm_specdec.cards import modes
from llm_specdec.cards.blocks import LARGEST, MOST_LINES, Block, lines_of, split
from llm_specdec.cards.code import CodeFigure, mask, read_code, system_text
from llm_specdec.cards.context import Around, is_for_another_size, speaks_of_another_size
from llm_specdec.cards.figures import Figure, names
from llm_specdec.cards.found import (
    README,
    Finding,
    Forbidden,
    Line,
    Outcome,
    Range,
    Required,
    Value,
)
from llm_specdec.cards.front import body_start
from llm_specdec.cards.origin import made_from
from llm_specdec.cards.paste import Paste
from llm_specdec.cards.rules import (
    Context,
    Judgement,
    Verdict,
    cues,
    elsewhere,
    judge,
    sentences,
    topics,
)
from llm_specdec.cards.tables import read_table
from llm_specdec.cards.words import pattern, words

MOST = 1_000  # statements on these matters that are judged; further ones are shown
LONGEST = 20_000  # characters of a code block or a table; a longer one is data
SPOKEN = {"system": "system prompt", "greedy": "greedy decoding"}
QUOTED_TEXT = re.compile(
    r"[:：](?:\*\*)?\s{0,3}(?:`([^`\n]{3,2000})`|[\"“„«「『]\s?([^\"“”„«»「」『』\n]{3,2000}?)\s?[\"”“»」』])\s{0,3}[.。]?\s*$"
)
QUOTED_INSIDE = re.compile(r"`([^`\n]{8,2000})`\s{0,3}[.。]?\s*$")


NOTHING = Line("", 0, "", "set aside", "")


@dataclass
class Said:
    """What one card says."""

    recommended: list[Finding] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    forbidden: list[Forbidden] = field(default_factory=list)
    required: list[Required] = field(default_factory=list)
    system_default: str | None = None
    lines: list[Line] = field(default_factory=list)
    made_from: list[str] = field(default_factory=list)
    is_cut: bool = False


@dataclass(frozen=True)
class Taken:
    """A figure found good. sections: where it stands, to find the siblings of a preset."""

    figure: Figure
    place: modes.Place
    sections: frozenset[int]
    line: int
    text: str
    required: bool = False


def read_text(text: str, repo: str) -> Said:
    """What the README text of `repo` says. Pure; never raises on odd text."""
    return _Reader(text, repo).read()


class _Reader:
    def __init__(self, text: str, repo: str) -> None:
        self.repo = repo
        self.raw = lines_of(text)
        self.said = Said(is_cut=len(text) > LARGEST or text.count("\n") > MOST_LINES)
        self.blocks = split(text)
        self.taken: list[Taken] = []
        self.lines: dict[int, Line] = {}
        self.judged = 0
        self._front_matter(text)

    def read(self) -> Said:
        paste = Paste()
        for index, block in enumerate(self.blocks):
            data = block.kind in ("code", "table") and len(block.text.text) > LONGEST
            if data or (not topics(block.text.text) and not self._may_matter(block)):
                paste.covers(block)
                continue
            around = Around(block, self.repo)
            if paste.covers(block):
                around.context = Context(Verdict.QUOTED, "other model")
            if block.kind == "code":
                self._code(block, around)
            elif block.kind == "table":
                self._table(block, around)
            else:
                self._text(block, around, self.blocks[index + 1 : index + 2])
        self._settle()
        self._sweep()
        self.said.made_from = made_from(self.blocks)
        self.said.lines = [self.lines[number] for number in sorted(self.lines)]
        return self.said

    def _may_matter(self, block: Block) -> bool:
        """Whether a block that names nothing may still speak of these matters."""
        text = block.text.text
        if text in words("topics.thinking"):
            return True
        if block.kind == "text" and any(
            QUOTED_TEXT.search(self.raw[n - 1]) for n in block.text.numbers
        ):
            return True
        above = [block.intro, *block.headings]
        return bool(re.search(r"\d", text)) and any(a and names(a.text.text) for a in above)

    def _front_matter(self, text: str) -> None:
        for number, line in enumerate(self.raw[: body_start(text)], 1):
            if names(line):
                self._note(number, "set aside", "front matter", about=_settings(line))

    def _note(
        self, line: int, outcome: Outcome, rule: str, about: Iterable[str] = (), text: str = ""
    ) -> None:
        """Records what became of a line. Where statements share it, shown outweighs the rest."""
        order: tuple[Outcome, ...] = ("set aside", "taken", "shown")
        known = self.lines.get(line)
        if known is None or order.index(outcome) > order.index(known.outcome):
            text = " ".join((text or self.raw[line - 1]).split())[:2000]
            self.lines[line] = Line(self.repo, line, text, outcome, rule, tuple(about))

    # prose

    def _text(self, block: Block, around: Around, after: list[Block]) -> None:
        if self._system(block, around, after):
            return
        text = block.text.text
        topic, asked = around.topic, False
        for start, end in sentences(text):
            sentence = text[start:end]
            context = around.context
            if speaks_of_another_size(sentence, self.repo):
                context = Context(Verdict.QUOTED, "another size of the model")
            if asked and context.verdict is Verdict.NEUTRAL:
                context = Context(Verdict.ADVICE)
            self._sentence(block, sentence, start, around, context, topic)
            named = {name.setting for name in names(sentence)}
            topic = named.pop() if len(named) == 1 else ("" if named else topic)
        if around.context.verdict is Verdict.ADVICE:
            self._other_texts(block, around)

    def _other_texts(self, block: Block, around: Around) -> None:
        """Below advice a quoted text may be a system prompt by a name that is not known here."""
        for number, line in block.raw_lines:
            quoted = QUOTED_TEXT.search(self.raw[number - 1])
            words_in = next(filter(None, quoted.groups()), "").split() if quoted else []
            if (
                number not in self.lines
                and len(words_in) > 1
                and len(line.split(":")[0].split()) < 5
            ):
                self._note(number, "shown", "a text by a name that is not known")

    def _sentence(
        self, block: Block, sentence: str, start: int, around: Around, context: Context, topic: str
    ) -> None:
        said = sentence
        if topic and not topics(sentence) and re.search(r"\d", sentence):
            said, start = f"{topic}: {sentence}", start - len(topic) - 2
        question = re.match(r"[^?？]*[?？]\s*", sentence)
        if question and context.verdict is not Verdict.QUOTED:
            said, start, context = self._answer(sentence, question.end(), start, context)
        judgement = self._judge(said, context)
        if judgement is None:
            return
        if (
            judgement.about == ("system",)
            and self.lines.get(block.first, NOTHING).rule == "system prompt"
        ):
            return
        self._record(block, judgement, said, start, around)

    def _judge(self, sentence: str, context: Context) -> Judgement | None:
        if self.judged >= MOST:
            about = tuple(dict.fromkeys(topic for topic, *_ in topics(sentence)))
            return (
                Judgement("shown", "too many statements to judge", about=about) if about else None
            )
        self.judged += 1
        return judge(sentence, context)

    def _answer(
        self, sentence: str, at: int, start: int, context: Context
    ) -> tuple[str, int, Context]:
        """ "And which top_p? 0.93" as "top_p: 0.93"; a question without an answer stays."""
        asked, answer = sentence[:at], sentence[at:]
        named = {topic for topic, *_ in topics(asked)}
        if len(named) == 1 and not topics(answer) and answer.strip():
            name = SPOKEN.get(named.copy().pop(), named.pop())
            refused = pattern(r"\W*(?:A:|Answer:)?\W*«rejection.refusal»").match(answer)
            lead = f"{'no ' if refused else ''}{name}: "
            return lead + answer, start + at - len(lead), replace(context, verdict=Verdict.ADVICE)
        return sentence, start, context

    def _record(
        self, block: Block, judgement: Judgement, sentence: str, start: int, around: Around
    ) -> None:
        at = block.text.line_of
        if judgement.outcome != "taken":
            places = {at(max(0, start + a)) for _, a, _ in topics(sentence)} or {at(max(0, start))}
            for line in sorted(places):
                self._note(line, judgement.outcome, judgement.rule, judgement.about)
            return
        for figure in judgement.figures:
            line = at(max(0, start + figure.end - 1))
            self._note(line, "taken", judgement.rule, judgement.about)
            own = [(modes.Label(judgement.modes), 0)] if judgement.modes else []
            labels = own if judgement.modes == (None,) else [*own, *around.labels]
            for place in modes.places(labels):
                text = dict(block.raw_lines)[line]
                self._take(
                    figure, place, block, around, line, text, figure.setting in judgement.required
                )
        for setting, offset in judgement.forbidden:
            line = at(max(0, start + offset))
            self._note(line, "taken", "rejection", (setting,))
            self._forbid(setting, line, sentence)

    def _take(
        self, figure: Figure, place: modes.Place, block: Block, around: Around,
        line: int, text: str, required: bool,
    ) -> None:  # fmt: skip
        sections = frozenset({*around.sections, -block.first})
        needed = required or around.required
        self.taken.append(Taken(figure, place, sections, line, " ".join(text.split()), needed))

    def _forbid(self, setting: str, line: int, text: str) -> None:
        if not any(f.setting == setting for f in self.said.forbidden):
            entry = Forbidden(setting, self.repo, line, " ".join(text.split()))
            self.said.forbidden.append(entry)

    def _system(self, block: Block, around: Around, after: list[Block]) -> bool:
        """A recommended system prompt: quoted on its line, or in the block below."""
        for number, line in block.raw_lines:
            if line not in words("topics.system") or around.context.verdict in (
                Verdict.QUOTED, Verdict.OUT,
            ):  # fmt: skip
                continue
            raw = self.raw[number - 1]
            quoted = QUOTED_TEXT.search(raw) or QUOTED_INSIDE.search(raw)
            ahead = line if quoted is None else raw[: quoted.start()]
            advised = "advice" in cues(ahead) or around.context.verdict is Verdict.ADVICE
            text = next(filter(None, quoted.groups()), "") if quoted else _below(block, after)
            if not text or names(ahead) or ahead not in words("topics.system"):
                continue
            if ahead in words("rejection.hint") or (elsewhere(cues(ahead)) and not advised):
                self._note(number, "shown", "a system prompt that is not recommended", ("system",))
            elif not advised:
                self._note(number, "shown", "a system prompt that nothing recommends", ("system",))
            elif self.said.system_default is None:
                self._note(number, "taken", "system prompt", ("system",))
                self.said.system_default = text.strip()
            return len(block.raw_lines) == 1
        return False

    # code and tables

    def _code(self, block: Block, around: Around) -> None:
        context = around.context
        advised = context.verdict is Verdict.ADVICE
        if advised and not self.said.system_default:
            self.said.system_default = system_text(block)
        found = read_code(block)
        values: dict[tuple[str, tuple[str, ...]], set[Value]] = {}
        for each in found:
            if each.value is not None:
                values.setdefault((each.setting, each.scopes), set()).add(each.value)
        for each in found:
            about = (each.setting,)
            if each.value is None:
                self._note(each.line, "set aside", each.rule, about)
            elif not advised:
                self._note(each.line, *_code_outcome(context), about)
            elif len(values[each.setting, each.scopes]) > 1:
                self._note(each.line, "shown", "two values in one place", about)
            else:
                self._note(each.line, "taken", "code", about)
                self._take_code(each, block, around)
        bare = mask(block.text.text).split("\n")
        for (number, line), code in zip(block.raw_lines, bare, strict=True):
            if number not in self.lines and names(line):
                told = _code_outcome(context) if names(code) else ("set aside", "comment or string")
                self._note(number, *told, _settings(line))

    def _take_code(self, each: CodeFigure, block: Block, around: Around) -> None:
        inner = [(_scope(name), -block.first) for name in each.scopes]
        figure = Figure(each.setting, 0, 0, each.value)
        for place in modes.places([*inner, *around.labels]):
            if each.setting != "thinking" or not modes.parts(place.mode)[0]:
                self._take(figure, place, block, around, each.line, each.text, False)

    def _table(self, block: Block, around: Around) -> None:
        for cell in read_table(block, around.context):
            if any(is_for_another_size(label, self.repo) for label in cell.labels):
                self._note(cell.line, "set aside", "another size of the model", (), cell.text)
                continue
            self._note(cell.line, cell.outcome, cell.rule, (cell.setting,), cell.text)
            if cell.outcome != "taken":
                continue
            if cell.figure is None:
                self._forbid(cell.setting, cell.line, cell.text)
                continue
            labels = [(modes.label_of(label), -block.first) for label in cell.labels]
            for place in modes.places([*labels, *around.labels]):
                self._take(cell.figure, place, block, around, cell.line, cell.text, cell.required)

    # the end

    def _settle(self) -> None:
        known: set[tuple[str, Value, str | None]] = set()
        for entry in self._certain(_with_presets(self.taken)):
            figure, mode = entry.figure, entry.place.mode
            if figure.value is None:
                where = (mode, self.repo, entry.line, entry.text)
                span = Range(figure.setting, figure.low, figure.high, *where)
                if not any(replace(span, line=r.line, text=r.text) == r for r in self.said.ranges):
                    self.said.ranges.append(span)
                continue
            if (figure.setting, figure.value, mode) not in known:
                known.add((figure.setting, figure.value, mode))
                self.said.recommended.append(
                    Finding(
                        figure.setting,
                        figure.value,
                        mode,
                        self.repo,
                        README,
                        entry.line,
                        entry.text,
                    )
                )
            if entry.required and not any(r.setting == figure.setting for r in self.said.required):
                self.said.required.append(
                    Required(figure.setting, figure.value, self.repo, entry.line, entry.text)
                )

    def _certain(self, taken: list[Taken]) -> Iterable[Taken]:
        """Without lines that give one setting two values in one mode: nobody says which."""
        values: dict[tuple[int, str, str | None], set[Value]] = {}
        for entry in taken:
            if entry.figure.value is not None:
                key = entry.line, entry.figure.setting, entry.place.mode
                values.setdefault(key, set()).add(entry.figure.value)
        for entry in taken:
            if len(values.get((entry.line, entry.figure.setting, entry.place.mode), ())) > 1:
                self._note(entry.line, "shown", "two values on one line", (entry.figure.setting,))
            else:
                yield entry

    def _sweep(self) -> None:
        """Whatever names a setting and was not judged is shown: nothing is dropped silently."""
        for block in self.blocks:
            for number, line in block.raw_lines:
                if number not in self.lines and names(line) and re.search(r"\d", line):
                    self._note(number, "shown", "not understood", _settings(line))


def _settings(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.setting for name in names(text)))


def _code_outcome(context: Context) -> tuple[Outcome, str]:
    if context.verdict is Verdict.ADVICE:
        return "shown", "code that is not understood"
    if context.verdict is Verdict.NEUTRAL and context.settings:
        return "shown", "no word recommends it"
    return "set aside", context.rule or "example"


def _below(block: Block, after: list[Block]) -> str:
    """The text of the code or quote that a sentence announces."""
    if not after or not (block.opens or block.text.text in words("headings.points_on")):
        return ""
    below = after[0]
    return below.text.text if below.kind == "code" or below.quoted > block.quoted else ""


def _scope(name: str) -> modes.Label:
    """A name around code. Only a key may be a preset: a variable's name says little."""
    label = modes.label_of(name.lstrip("="))
    return modes.Label(label.modes) if name.startswith("=") else label


def _with_presets(taken: list[Taken]) -> list[Taken]:
    """An unknown label is a preset if its section has another label with another value."""
    there: dict[tuple[int, str], dict[tuple[Value | None, modes.Place], None]] = {}
    for entry in taken:
        for section in entry.sections:
            seen = there.setdefault((section, entry.figure.setting), {})
            seen[entry.figure.value, entry.place] = None
    shown = {
        (entry.place.preset, entry.place.section)
        for entry in taken
        if entry.place.preset
        if any(
            value != entry.figure.value and place != entry.place
            for value, place in there.get((entry.place.section, entry.figure.setting), ())
        )
    }
    return [
        replace(entry, place=modes.Place(entry.place.preset))
        if (entry.place.preset, entry.place.section) in shown
        else entry
        for entry in taken
    ]
