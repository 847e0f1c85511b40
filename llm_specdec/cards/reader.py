"""One card's text → what it recommends, rejects and requires, with lines and modes."""

import re
from dataclasses import dataclass, field, replace

from llm_specdec.cards import lexicon as lex
from llm_specdec.cards import modes
from llm_specdec.cards.blocks import Block, split
from llm_specdec.cards.code import CodeFigure, read_code, system_text
from llm_specdec.cards.context import (
    ALL,
    Context,
    Place,
    is_for_another_size,
    speaks_of_another_size,
)
from llm_specdec.cards.figures import Figure, figures, names
from llm_specdec.cards.found import README, Candidate, Finding, Forbidden, Range, Required, Value
from llm_specdec.cards.judge import Verdict, cues, is_advice, is_required, sentences
from llm_specdec.cards.paste import Paste
from llm_specdec.cards.rejections import rejections, says_greedy
from llm_specdec.cards.tables import read_table
from llm_specdec.cards.thinking import thinking_advice

# A longer block is data, not text; its lines are still listed as candidates.
LONGEST = 20_000


@dataclass
class Said:
    """What one card says."""

    recommended: list[Finding] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    forbidden: list[Forbidden] = field(default_factory=list)
    required: list[Required] = field(default_factory=list)
    system_default: str | None = None
    candidates: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True)
class Taken:
    """A figure found good. sections: where it stands, to find the siblings of a preset."""

    figure: Figure
    place: Place
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
        self.blocks = split(text)
        self.taken: list[Taken] = []
        self.said = Said()
        self.known: set[tuple[str, Value, str | None]] = set()

    def read(self) -> Said:
        paste = Paste()
        for index, block in enumerate(self.blocks):
            if paste.covers(block) or len(block.text.text) > LONGEST:
                continue
            context = Context(block, self.repo)
            if context.foreign:
                continue
            if block.kind == "code":
                self._code(block, context)
            elif block.kind == "table":
                self._table(block, context)
            else:
                self._text(block, context, self.blocks[index + 1 : index + 2])
        self._settle()
        return self.said

    def _take(
        self, figure: Figure, place: Place, block: Block, context: Context, line: int, text: str,
        required: bool = False,
    ) -> None:  # fmt: skip
        sections = frozenset({*context.sections, -block.text.numbers[0]})
        self.taken.append(Taken(figure, place, sections, line, " ".join(text.split()), required))

    # prose

    def _text(self, block: Block, context: Context, after: list[Block]) -> None:
        text = block.text.text
        topic = context.topic
        for start, end in sentences(text):
            sentence = text[start:end]
            if not speaks_of_another_size(sentence, self.repo):
                self._rejections(block, sentence, start, context)
                self._system(block, sentence, context, after)
                self._figures(block, sentence, start, context, topic)
            named = {name.setting for name in names(sentence)}
            topic = named.pop() if len(named) == 1 else (None if named else topic)

    def _figures(
        self, block: Block, sentence: str, offset: int, context: Context, topic: str | None
    ) -> None:
        for figure, mentioned in _place(sentence, _advised(sentence, context.verdict, topic)):
            line = block.text.line_of(offset + figure.start)
            text = dict(block.raw_lines)[line]
            required = is_required(sentence, figure.start, figure.end)
            if not any(cue.kind == "advice" for cue in cues(sentence)):
                required = required or context.required
            for place in context.places(mentioned, []):
                self._take(figure, place, block, context, line, text, required)
        thinking = thinking_advice(sentence)
        if thinking and context.verdict is not Verdict.QUOTED:
            line = block.text.line_of(offset + thinking.start)
            self._take(thinking, Place(None), block, context, line, sentence)

    def _rejections(self, block: Block, sentence: str, offset: int, context: Context) -> None:
        for setting, start in rejections(sentence, context.verdict):
            self._forbid(setting, block.text.line_of(offset + start), sentence)

    def _forbid(self, setting: str, line: int, text: str) -> None:
        if not any(f.setting == setting for f in self.said.forbidden):
            entry = Forbidden(setting, self.repo, line, " ".join(text.split()))
            self.said.forbidden.append(entry)

    def _system(self, block: Block, sentence: str, context: Context, after: list[Block]) -> None:
        """A recommended system prompt: quoted in the sentence, or in the block below it."""
        if self.said.system_default or sentence not in lex.SYSTEM:
            return
        advised = any(cue.kind == "advice" for cue in cues(sentence))
        if context.verdict is Verdict.QUOTED or not (advised or context.verdict is Verdict.ADVICE):
            return
        if any(setting == "system" for setting, _ in rejections(sentence, context.verdict)):
            return
        quoted = QUOTED_TEXT.search(sentence)
        if quoted:
            self.said.system_default = quoted[1].strip()
        elif after and (sentence.rstrip().endswith(":") or sentence in lex.POINTS_ON):
            below = after[0]
            if below.kind == "code" or below.quoted > block.quoted:
                self.said.system_default = below.text.text.strip()

    # code and tables

    def _code(self, block: Block, context: Context) -> None:
        if context.verdict is not Verdict.ADVICE:
            return
        if not self.said.system_default:
            self.said.system_default = system_text(block)
        section = -block.text.numbers[0]
        for found in _told_apart(read_code(block)):
            inner = [(_scope(name), section) for name in found.scopes]
            figure = Figure(found.setting, 0, 0, found.value)
            for place in context.places((), inner):
                if found.setting != "thinking" or not modes.parts(place.mode)[0]:
                    self._take(
                        figure, place, block, context, found.line, found.text, context.required
                    )

    def _table(self, block: Block, context: Context) -> None:
        section = -block.text.numbers[0]
        for cell in read_table(block, context.verdict):
            if any(is_for_another_size(label, self.repo) for label in cell.labels):
                continue
            if cell.forbidden:
                self._forbid(cell.forbidden, cell.line, cell.text)
            elif cell.figure:
                labels = [modes.label_of(label) for label in cell.labels]
                required = cell.required or context.required
                for place in context.places((), [(label, section) for label in labels]):
                    self._take(cell.figure, place, block, context, cell.line, cell.text, required)

    # the end

    def _settle(self) -> None:
        taken = _with_presets(self.taken)
        for entry in _without_doubles(taken):
            if entry.figure.is_range:
                self._record_range(entry)
            else:
                self._record_value(entry)
        used = {entry.line for entry in taken}
        for block in self.blocks:
            for number, line in block.raw_lines:
                if number not in used and names(line) and re.search(r"\d", line):
                    self.said.candidates.append(Candidate(self.repo, number, line.strip()))

    def _record_range(self, entry: Taken) -> None:
        figure = entry.figure
        span = Range(
            figure.setting, figure.low, figure.high, entry.place.mode, self.repo, entry.line,
            entry.text,
        )  # fmt: skip
        if not any(replace(span, line=r.line, text=r.text) == r for r in self.said.ranges):
            self.said.ranges.append(span)

    def _record_value(self, entry: Taken) -> None:
        setting, value = entry.figure.setting, entry.figure.value
        assert value is not None
        found = Finding(setting, value, entry.place.mode, self.repo, README, entry.line, entry.text)
        if (setting, value, found.mode) not in self.known:
            self.known.add((setting, value, found.mode))
            self.said.recommended.append(found)
        if entry.required and not any(r.setting == setting for r in self.said.required):
            self.said.required.append(Required(setting, value, self.repo, entry.line, entry.text))


QUOTED_TEXT = re.compile(r"[:：]\s*[\"«„「『](.{8,}?)[\"»“」』]\s*\.?\s*$", re.DOTALL)


def _advised(sentence: str, context: Verdict, topic: str | None) -> list[Figure]:
    """The figures of a sentence that are advice, recommended greedy decoding among them."""
    found = figures(sentence, topic)
    greedy = says_greedy(sentence)
    if greedy is not None and not any(f.setting == "temperature" and f.value == 0 for f in found):
        found.append(Figure("temperature", greedy, greedy + 1, 0))
    question = max(sentence.rfind("?"), sentence.rfind("？"))
    asked = question >= 0 and bool(names(sentence[:question]))
    return [
        figure
        for figure in found
        if is_advice(sentence, figure.start, figure.end, context, asked and figure.start > question)
    ]


def _told_apart(found: list[CodeFigure]) -> list[CodeFigure]:
    """Without figures that one place in the code gives twice, differently: nobody says which."""
    values: dict[tuple[str, tuple[str, ...]], set[Value]] = {}
    for figure in found:
        values.setdefault((figure.setting, figure.scopes), set()).add(figure.value)
    return [figure for figure in found if len(values[figure.setting, figure.scopes]) == 1]


def _scope(name: str) -> modes.Label:
    """A name around code. Only a key may be a preset: a variable's name says little."""
    label = modes.label_of(name.lstrip("="))
    return modes.Label(label.modes) if name.startswith("=") else label


def _with_presets(taken: list[Taken]) -> list[Taken]:
    """An unknown label is a preset if its section has another label with another value."""
    there: dict[tuple[int, str], dict[tuple[Value | None, Place], None]] = {}
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
        replace(entry, place=Place(entry.place.preset))
        if (entry.place.preset, entry.place.section) in shown
        else entry
        for entry in taken
    ]


def _without_doubles(taken: list[Taken]) -> list[Taken]:
    """Two values for one setting and mode on one line leave it open which is meant."""
    values: dict[tuple[int, str, str | None], set[Value]] = {}
    for entry in taken:
        if entry.figure.value is not None:
            values.setdefault(_spot(entry), set()).add(entry.figure.value)
    return [e for e in taken if e.figure.is_range or len(values[_spot(e)]) == 1]


def _spot(entry: Taken) -> tuple[int, str, str | None]:
    return entry.line, entry.figure.setting, entry.place.mode


def _place(sentence: str, found: list[Figure]) -> list[tuple[Figure, tuple[str | None, ...]]]:
    """Each figure with the modes that its sentence names for it."""
    if not found:
        return []
    named = modes.mentions(sentence)
    head = re.match(r"\s*([^:.]{1,50}):\s", sentence)
    if head and not names(head[1]):
        inside = modes.mentions(head[1], label=True)
        named = [*inside, *(m for m in named if m.start >= head.end())]
    named = modes.with_brackets(sentence, named)
    if not named:
        return [(figure, ()) for figure in found]
    leading = named[0].start < found[0].start
    both: list[Figure | modes.Mention] = [*found, *named]
    events = sorted(both, key=lambda event: event.start)
    ordered = events if leading else events[::-1]
    placed: list[tuple[Figure, tuple[str | None, ...]]] = []
    group: list[modes.Mention] = []
    seen: set[str] = set()
    fresh = True
    for event in ordered:
        if isinstance(event, modes.Mention):
            group = [event] if not fresh else [*group, event]
            fresh, seen = True, set()
            continue
        own: tuple[str | None, ...] = modes.compose(group) or ((ALL,) if group else ())
        placed.append((event, own if leading or event.setting not in seen else ()))
        seen.add(event.setting)
        fresh = False
    return sorted(placed, key=lambda entry: entry[0].start)
