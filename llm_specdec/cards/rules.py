"""What becomes of a statement, and by which rule: taken, shown or set aside.

Taken is only what is certain: settings and figures side by side, nothing left over that could
turn their meaning, and a word or a heading that recommends them. A statement that is about
something else (a benchmark, training, another model) is set aside. All the rest is shown.
"""

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from llm_specdec.cards import modes
from llm_specdec.cards.clean import BREAK
from llm_specdec.cards.figures import MARKS, NUMBERS, Figure, Reading, has_names, names, read
from llm_specdec.cards.found import Outcome
from llm_specdec.cards.words import pattern, words

# What a statement is about when it is not advice, the clearest first → the rule's name.
ELSEWHERE = {
    "withdrawn": "withdrawn",
    "others": "other model",
    "measured": "benchmark",
    "trained": "training",
    "tried": "experiment",
    "shown": "example",
    "fails": "said to fail",
}
FILLER = r"(?:[\s`\"'(]|«rejection.filler»)*"
JOINED = r"(?:[\s`\"',/]|«rejection.join»)*+"
LONGEST = 2_000  # characters; more is no sentence
ENDS = re.compile(
    rf"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bapprox\.)(?<!\bca\.)(?<!\bz\.B\.)"
    rf"(?<!\bpen\.)(?<!\btemp\.)(?<!\brep\.)[\"')\]]{{0,3}}\s+(?=\S)|(?<=[。！？])|{BREAK}\n?",
    re.IGNORECASE,
)
CLAUSES = re.compile(
    r";|\s[–—-]\s(?!\s?[\d.])|:\s(?!\s?[\d.\"'(])|\.\s|,\s(?=(?:but|and|so|aber|und|mais|et|pero|y|mas|e|ma|но|и|ama|ve)\s)"
)


class Verdict(Enum):
    """What a heading, label or introducing sentence makes of the block below it."""

    ADVICE = "advice"
    NEUTRAL = "neutral"
    OUT = "out"  # benchmarks, training …
    QUOTED = "quoted"  # sample output, another card, old advice: nothing inside counts


@dataclass(frozen=True)
class Context:
    """What stands around a statement. rule: why it is out or quoted; settings, usage: a heading
    or an introduction speaks of these."""

    verdict: Verdict = Verdict.NEUTRAL
    rule: str = ""
    settings: bool = False
    usage: bool = False


@dataclass(frozen=True)
class Judgement:
    outcome: Outcome
    rule: str
    figures: tuple[Figure, ...] = ()
    forbidden: tuple[tuple[str, int], ...] = ()
    required: tuple[str, ...] = ()  # settings whose value it calls essential
    modes: tuple[str | None, ...] = ()  # (None,) = said of every mode
    about: tuple[str, ...] = field(default=(), compare=False)  # settings that it speaks of


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences; a question and its short answer stay together."""
    cuts = [0, *(m.end() for m in ENDS.finditer(text)), len(text)]
    joined: list[tuple[int, int]] = []
    for start, end in pairwise(cuts):
        if not text[start:end].strip():
            continue
        if joined and text[joined[-1][0] : joined[-1][1]].rstrip(" \n\"')]").endswith(("?", "？")):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


@lru_cache(maxsize=256)
def cues(text: str) -> frozenset[str]:
    """The kinds of cue words in a text."""
    whole = text[:LONGEST]
    text = pattern("«cues.prevents»[^,;.。]{0,200}").sub(" ", whole)
    found = {kind for kind in ELSEWHERE if text in words(f"cues.{kind}")}
    found |= {"against"} if whole in words("cues.against") else set()
    own = pattern("«cues.withdrawn cues.others»").sub(" ", text)  # "they recommended" is no advice
    found |= {"advice"} if own in words("cues.advice") else set()
    asked = pattern(
        r"(?:^|[.,;:!?()>*•\n–—-]|«cues.imperative_after»|^\W*«cues.imperative_lead»[^,.;:]{1,40}\s)"
        r"[\s\d.*•-]*«cues.imperative»"
    )
    if asked.search(text) or text in words("cues.command"):
        found.add("imperative")
    return frozenset(found)


def elsewhere(found: frozenset[str]) -> str:
    """The rule that sets a text with these cues aside, or ""."""
    return next((rule for kind, rule in ELSEWHERE.items() if kind in found), "")


@lru_cache(maxsize=256)
def verdict(text: str) -> tuple[Verdict, str]:
    """A heading, label or introducing sentence: what it makes of the block below, and why."""
    found = cues(text)
    if text in words("headings.pasted"):
        return Verdict.QUOTED, "other model"
    if "withdrawn" in found:
        return Verdict.QUOTED, "withdrawn"
    out = elsewhere(found - {"fails"})
    if "advice" in found:
        if found & {"against", "others", "trained"}:
            return Verdict.OUT, out or "advice against it"
        about_other = text in words("headings.other") and text not in words("headings.settings")
        return (Verdict.NEUTRAL if out or about_other else Verdict.ADVICE), ""
    if _is_quote_label(text):
        return Verdict.QUOTED, "quotation"
    if out or "against" in found:
        return Verdict.OUT, out or "advice against it"
    if "imperative" in found and text in words("headings.settings") and not names(text):
        return Verdict.ADVICE, ""
    return Verdict.NEUTRAL, ""


def _is_quote_label(text: str) -> bool:
    """ "Output:", "Sample generation", "User:": what follows is not the author's advice."""
    bare = text.strip().rstrip(":").strip()
    spans = words("headings.quoted").spans(bare)
    return len(bare.split()) <= 6 and any(b - a > 0.6 * len(bare) for a, b in spans)


def topics(text: str) -> list[tuple[str, int, int]]:
    """What a text speaks of that matters here: (setting, system or greedy, start, end)."""
    found = [(name.setting, name.start, name.end) for name in names(text)]
    found += [("system", *span) for span in words("topics.system").spans(text)]
    found += [("greedy", *span) for span in words("topics.greedy").spans(text)]
    return sorted(found, key=lambda topic: topic[1])


def judge(sentence: str, context: Context) -> Judgement | None:
    """What becomes of a sentence; None where it does not speak of these matters at all."""
    found = topics(sentence)
    thinking = sentence in words("topics.thinking") and sentence in words("thinking.switch")
    if not found and not thinking:
        return None
    about = tuple(dict.fromkeys(topic for topic, _, _ in found)) or ("thinking",)
    result = _judge(sentence, context, about)
    return replace(result, about=about)


def _judge(sentence: str, context: Context, about: tuple[str, ...]) -> Judgement:
    if context.verdict is Verdict.QUOTED:
        return Judgement("set aside", context.rule or "quotation")
    if len(sentence) > LONGEST:
        return Judgement("shown", "too long to judge")
    if about == ("thinking",):
        return _on_thinking(sentence, context)
    if sentence.rstrip(" \n\"')").endswith(("?", "？")):
        return Judgement("shown" if NUMBERS.search(sentence) else "set aside", "a question")
    said = _Sentence(sentence, context)
    out = said.set_aside()
    if out:
        return out
    parts = [_clause(clause, said) for clause in said.clauses]
    doubts = [part.rule for part in parts if part.outcome == "shown"]
    if doubts:
        return Judgement("shown", doubts[0])
    figures = [figure for part in parts for figure in part.figures]
    forbidden = [entry for part in parts for entry in part.forbidden]
    required = [setting for part in parts for setting in part.required]
    if not figures and not forbidden:
        return said.without_figures()
    told = said.modes(figures)
    if told is None:
        return Judgement("shown", "several modes in one sentence")
    rule = "rejection" if not figures else "range" if figures[0].is_range else "name and figure"
    return Judgement("taken", rule, tuple(figures), tuple(forbidden), tuple(required), told)


class _Sentence:
    """A sentence and what is common to its clauses."""

    def __init__(self, text: str, context: Context) -> None:
        self.text, self.context = text, context
        self.found = cues(text)
        self.named = modes.mentions(text)
        self.bare = list(text)
        for mention in self.named:
            self.bare[mention.start : mention.end] = " " * (mention.end - mention.start)
        self.masked = "".join(self.bare)
        self.advised = "advice" in self.found or "imperative" in self.found
        self.listed = is_list(self.masked)
        cuts = [0, *(m.end() for m in CLAUSES.finditer(self.masked)), len(self.masked)]
        label = re.match(r"[^:]{1,60}:\s*", self.masked)
        if label and is_name(label[0]):
            cuts = [cut for cut in cuts if cut == 0 or cut > label.end()]
        lead = self.masked.find(":")
        if lead >= 0 and not topics(self.masked[:lead]):  # a label says how to read what follows
            cuts = [cut for cut in cuts if cut not in (lead + 1, lead + 2)]
        pairs = pairwise(cuts)
        self.clauses = [(a, self.masked[a:b]) for a, b in pairs if self.masked[a:b].strip()]

    def set_aside(self) -> Judgement | None:
        out = elsewhere(self.found)
        if self.context.verdict is Verdict.OUT and not self.advised:
            return Judgement("set aside", self.context.rule)
        if not out or "against" in self.found:
            return None
        if not self.advised and self._is_about_that():
            return Judgement("set aside", out)
        if "imperative" in self.found and "advice" not in self.found and out != "said to fail":
            return Judgement("shown", f"advice and {out} in one sentence")
        return None

    def _is_about_that(self) -> bool:
        """Whether the cue that sets it aside tells what the sentence is about. Below a heading
        that recommends, it must come first: "scores were taken at …", not "0.6, as in tests"."""
        has_figure = NUMBERS.search(self.text) is not None
        if self.context.verdict is not Verdict.ADVICE:
            return has_figure or elsewhere(self.found) != "said to fail"
        first = min(
            (a for k in ELSEWHERE for a, _ in words(f"cues.{k}").spans(self.text)), default=0
        )
        return has_figure and not self.listed and first < topics(self.text)[0][1]

    def without_figures(self) -> Judgement:
        """A sentence that names settings and gives no figure."""
        if self.text in words("cues.optional"):
            return Judgement("set aside", "called optional")
        if self.is_fact():
            return Judgement("set aside", "a statement of fact")
        asked = self.advised or self.found & {"against", "fails"} or self.context.settings
        if asked or self.context.usage or self.context.verdict is Verdict.ADVICE:
            return Judgement("shown", "advice in words")
        return Judgement("set aside", "no advice")

    def is_fact(self) -> bool:
        """ "There is no system prompt": said of the model, not to the reader."""
        asked = self.advised or "against" in self.found or self.context.verdict is Verdict.ADVICE
        return not asked and self.text in words("rejection.fact")

    def modes(self, figures: list[Figure]) -> tuple[str | None, ...] | None:
        """The modes of all figures; None where figures stand between the mentions of modes."""
        if not self.named or not figures:
            return ()
        first, last = self.named[0].start, self.named[-1].end
        if any(first < figure.end - 1 and figure.start < last for figure in figures):
            before = all(m.end <= figures[0].start for m in self.named)
            after = all(figures[-1].end <= m.start for m in self.named)
            if not (before or after):
                return None
        return modes.compose(self.named) or (None,)


def is_list(text: str) -> bool:
    """Whether a text is nothing but settings with their figures: "temp 0.6, top-p 0.9"."""
    reading = read(text)
    if not reading.figures or reading.unnamed or reading.unvalued:
        return False
    label = re.match(r"[^:]{1,60}:\s", reading.rest)
    if label and not names(label[0]) and not _is_hazard(label[0]):
        return _is_empty(reading.rest[label.end() :])
    return _is_empty(reading.rest)


def is_name(text: str) -> bool:
    """Whether a text is nothing but one name: "**Top-p**:"."""
    about = topics(text)
    rest = text[: about[0][1]] + text[about[-1][2] :] if about else text
    return len({topic for topic, *_ in about}) == 1 and re.fullmatch(r"[\W\d]*", rest) is not None


def _is_empty(rest: str) -> bool:
    joints = "«figures.link figures.and modes.filler modes.for»"
    return pattern(rf"(?:{MARKS}|[,;.·/&*+!•]|{joints})*+").fullmatch(rest) is not None


def _clause(clause: tuple[int, str], said: _Sentence) -> Judgement:
    """One clause of a sentence that is not set aside as a whole."""
    offset, text = clause
    found, reading = cues(text), read(text)
    out = elsewhere(found)
    about = topics(text)
    if not about and has_names(text):
        return Judgement("set aside", "no setting of sampling")
    if not about:
        return Judgement("shown" if reading.unnamed else "set aside", "a figure without a name")
    if out and not found & {"advice", "against"} and not said.listed:
        return Judgement("set aside", out)
    forbidden, doubtful = rejections(text, reading, said)
    if doubtful:
        return Judgement("shown", "a rejection, perhaps")
    figures = (*reading.figures, *_greedy(text, about, reading, forbidden, said))
    rejected = {start for _, start in forbidden}
    left = [name for name in reading.unvalued if name.start not in rejected]
    if figures or reading.unnamed:
        doubt = _doubt(text, reading, said, bool(left), bool(forbidden), out)
        if doubt:
            return Judgement("shown", doubt)
    moved = tuple(replace(f, start=f.start + offset, end=f.end + offset) for f in figures)
    no = tuple((setting, start + offset) for setting, start in forbidden)
    needed = text in words("cues.required") and text not in words("cues.optional")
    required = tuple(f.setting for f in moved) if needed else ()
    return Judgement("taken" if moved or no else "set aside", "no advice", moved, no, required)


def _greedy(
    text: str, about: list[tuple[str, int, int]], reading: Reading,
    forbidden: list[tuple[str, int]], said: _Sentence,
) -> list[Figure]:  # fmt: skip
    """Recommended greedy decoding is temperature 0."""
    spans = [(start, end) for setting, start, end in about if setting == "greedy"]
    given = any(f.setting == "temperature" for f in reading.figures)
    if not spans or given or ("greedy", spans[0][0]) in forbidden or not said.advised:
        return []
    unclear = (
        _is_hazard(text) or text in words("rejection.hint") or cues(text) & {"fails", "against"}
    )
    return [] if unclear else [Figure("temperature", *spans[0], 0)]


def _doubt(
    text: str, reading: Reading, said: _Sentence, left: bool, forbidden: bool, out: str
) -> str:
    """Why the figures of a clause are not certain; "" where they are."""
    if reading.unnamed or left:
        return "figures that cannot be told apart"
    if out or ("against" in cues(text) and not forbidden):
        return f"advice and {out or 'a warning'} in one sentence"
    listed = said.listed or is_list(text)
    if not listed and _is_hazard(reading.rest):
        return "words that may change the meaning"
    if not (said.advised or (listed and said.context.verdict is Verdict.ADVICE)):
        return "no word recommends it"
    if said.context.verdict is Verdict.OUT and said.context.rule != "example":
        return f"advice below a heading on {said.context.rule}"
    return ""


def _is_hazard(rest: str) -> bool:
    rest = words("cues.advice").pattern.sub(" ", rest)
    return rest in words("cues.hazard") or rest in words("cues.conditional")


def rejections(
    text: str, reading: Reading, said: "_Sentence | None" = None
) -> tuple[list[tuple[str, int]], bool]:
    """What a clause rejects, (setting, offset) each, and whether there is a doubt."""
    valued = [(f.start, f.end) for f in reading.figures]
    subjects = [t for t in topics(text) if not any(a <= t[1] < b for a, b in valued)]
    subjects = [t for t in subjects if t[0] not in ("temperature", "max_tokens")]
    if not subjects or text not in words("rejection.hint") or text in words("cues.optional"):
        return [], False
    if elsewhere(cues(text) - {"fails", "advice"}):
        return [], False
    sure = [topic for topic in subjects if _is_rejected(text, topic)]
    joined = pattern(JOINED)
    for before, topic in pairwise(subjects):
        if topic not in sure and before in sure and joined.fullmatch(text, before[2], topic[1]):
            sure.append(topic)
    for topic, after in ((b, a) for a, b in pairwise(subjects[::-1])):
        if topic not in sure and after in sure and joined.fullmatch(text, topic[2], after[1]):
            sure.append(topic)
    if said and said.is_fact():
        return [], False
    if any(
        text in words(kind) for kind in ("rejection.fact", "rejection.unsure", "cues.conditional")
    ):
        sure = []
    if len(sure) < len(subjects):
        return [], True
    return [(setting, start) for setting, start, _ in sorted(sure, key=lambda t: t[1])], False


def _is_rejected(text: str, topic: tuple[str, int, int]) -> bool:
    ahead, behind = text[max(0, topic[1] - 80) : topic[1]], text[topic[2] : topic[2] + 80]
    no = pattern(f"«rejection.before»{FILLER}$").search(ahead)
    if no:  # a second negation before it may undo it
        return pattern(r"«rejection.join»|,").split(ahead[: no.start()])[-1] not in words(
            "rejection.hint"
        )
    if pattern(r"[\s`\"')]*(?:\([^)]*\)\s*)?«rejection.after»").match(behind):
        return True
    kept = pattern(f"«rejection.leave»{FILLER}$").search(ahead)
    return bool(kept and pattern(r"[\s`\"')]*«rejection.left»").match(behind))


def _on_thinking(sentence: str, context: Context) -> Judgement:
    """Advice to keep thinking on or off, as opposed to naming the mode or telling how to switch."""
    found = cues(sentence)
    on, off = (words(f"thinking.{value}").spans(sentence) for value in ("on", "off"))
    sure = (
        bool(on) != bool(off) and not elsewhere(found) and sentence not in words("cues.conditional")
    )
    if sure:
        figure = Figure("thinking", *(on or off)[0], "on" if on else "off")
        return Judgement("taken", "thinking", (figure,))
    if on or off or ("advice" in found and not elsewhere(found)):
        return Judgement("shown", "advice on thinking")
    return Judgement("set aside", elsewhere(found) or "no advice")
