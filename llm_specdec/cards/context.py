"""What stands around a block: does it recommend, which mode and which setting does it name?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from llm_specdec.cards import lexicon as lex
from llm_specdec.cards import modes
from llm_specdec.cards.blocks import LABEL_LEVEL, Block
from llm_specdec.cards.figures import figures, names
from llm_specdec.cards.judge import Verdict, sentences, verdict

CALLOUT = re.compile(
    r"\W*(?:note|notes|tip|tips|hint|important|attention|warning|nota|remarque|hinweis|wichtig|внимание|注意|重要)\W*",
    re.IGNORECASE,
)
ALL = "*"  # said of every mode: no label around changes that
SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?[Bb](?![a-z])")
FOR_A_SIZE = re.compile(
    r"\b(?:for|on|with|für|pour|para|per|для)\s+(?:the\s+|our\s+)?[\w./-]*?" + SIZE.pattern
)


@dataclass(frozen=True)
class Place:
    """The mode of a figure as its labels have it.

    preset: an unknown label, a preset only if its siblings in `section` show that it is one.
    """

    mode: str | None
    preset: str | None = None
    section: int = 0


class Context:
    """Everything around one block.

    verdict: of the nearest intro, label or heading that says anything.
    foreign: a label speaks of another size of the model than the repository's.
    sections: lines of the headings and labels above, 0 for the card.
    """

    def __init__(self, block: Block, repo: str) -> None:
        self.ancestry = list(_ancestry(block))
        verdicts = [verdict(text) for text in self.ancestry]
        said = [found for found in verdicts if found is not Verdict.NEUTRAL]
        self.verdict = said[0] if said else Verdict.NEUTRAL
        if _is_cited(block):
            self.verdict = Verdict.QUOTED
        labels = list(_label_texts(block))
        self.foreign = any(short and is_for_another_size(text, repo) for text, short, _ in labels)
        self.around = [(_label(text, short), section) for text, short, section in labels]
        self.sections = {0, *(heading.text.numbers[0] for heading in block.headings)}
        self.topic = _topic(block)
        self.required = self._requires()

    def _requires(self) -> bool:
        """Whether what recommends the block calls all of it essential."""
        for text in self.ancestry:
            if verdict(text) is Verdict.ADVICE:
                return text in lex.REQUIRES and text not in lex.NOT_REQUIRED
        return False

    def places(
        self, own: tuple[str | None, ...], inner: list[tuple[modes.Label, int]]
    ) -> list[Place]:
        """Modes from a figure's own words, then labels inside the block, then around it."""
        if own == (ALL,):
            return [Place(None)]
        labels = [*([(modes.Label(own), 0)] if own else []), *inner, *self.around]
        for index, (label, section) in enumerate(labels):
            if len(label.modes) > 1:
                each = [(modes.Label((mode,)), section) for mode in label.modes]
                rows = [[*labels[:index], one, *labels[index + 1 :]] for one in each]
                return list(dict.fromkeys(_place(row) for row in rows))
        return [_place(labels)]


def _place(labels: list[tuple[modes.Label, int]]) -> Place:
    """The mode that labels make together, nearest first."""
    base: str | None = None
    task: str | None = None  # "" = explicitly no task
    preset: tuple[str, int] | None = None
    for label, section in labels:
        for name in label.modes[:1]:
            first, rest = modes.parts(name)
            base = base or first
            task = rest if task is None and (rest or not first) else task
        if label.preset and not preset and not base and task is None:
            preset = (label.preset, section)
    mode = f"{base}:{task}" if base and task else base or task or None
    return Place(mode, *preset) if preset and not mode else Place(mode)


def _is_cited(block: Block) -> bool:
    """A quote below "A user wrote:": words of someone else, unless they are announced as advice."""
    label = block.headings[-1] if block.headings and block.headings[-1].label == "colon" else None
    above = block.intro or label
    if not block.quoted or above is None or above.quoted == block.quoted or not _opens(above):
        return False
    text = above.text.text
    return verdict(text) is not Verdict.ADVICE and not CALLOUT.fullmatch(text)


def is_for_another_size(text: str, repo: str) -> bool:
    """Whether a label names sizes ("14B"), none of them that of the repository."""
    name = re.sub(r"[-_]", " ", repo.rstrip("/").rpartition("/")[2])
    sizes, own = set(SIZE.findall(text)), set(SIZE.findall(name))
    return bool(sizes) and bool(own) and not sizes & own


def speaks_of_another_size(sentence: str, repo: str) -> bool:
    """ "For the 14B we recommend …" on the card of the 7B."""
    return any(is_for_another_size(m[0], repo) for m in FOR_A_SIZE.finditer(sentence))


def item_label(text: str) -> str:
    """What stands before a list item's colon, dash or line break."""
    first = text.split("\n")[0]
    match = re.match(r"\s*([^:\n]{1,60}?)(?::|\.\s|\s[–—-]\s)", first)
    label = match[1] if match else (first if "\n" in text and not figures(first) else "")
    return "" if names(label) or len(label.split()) > 12 else label


def _ancestry(block: Block) -> Iterator[str]:
    """Texts that introduce a block, nearest first; a card's title introduces nothing."""
    headings = block.headings
    while block.intro is not None:
        intro = block.intro
        if block.kind == "text" and not block.item and not _opens(intro):
            break
        text = _introducing(intro, block)
        if text:
            yield text
        block = intro
    for heading in reversed(headings):
        if heading.label != "title":
            yield heading.text.text


def _opens(block: Block) -> bool:
    return block.text.text.rstrip().endswith(":")


def _introducing(intro: Block, block: Block) -> str:
    """The last sentence before a block, unless it is complete in itself (has own figures)."""
    text = intro.text.text
    if intro.kind == "heading":
        return text
    spans = sentences(text)
    last = text[spans[-1][0] :] if spans else text
    if last.rstrip().endswith(":") or (intro.item and block.item):
        return last
    if figures(last) and block.kind != "text":
        return ""
    return last if last in lex.ABOUT_SETTINGS or last in lex.POINTS_ON else ""


def _label_texts(block: Block) -> Iterator[tuple[str, bool, int]]:
    """(text, whether it is a label rather than a sentence, its section), nearest first."""
    headings = block.headings
    section = max((h.text.numbers[0] for h in headings if h.level < LABEL_LEVEL), default=0)
    if block.kind == "text" and block.item:
        yield item_label(block.text.text), True, section
    elif block.kind == "text" and (label := item_label(block.text.text)) and _is_mode(label):
        yield label, True, section
    while block.intro is not None:
        intro = block.intro
        text = intro.text.text
        if intro.item:
            yield item_label(text) or (text if len(text) < 60 else ""), True, section
        elif block.kind != "text" or block.item:
            yield text, _opens(intro) and len(text.split()) <= 9, section
        block = intro
    for index in range(len(headings) - 1, -1, -1):
        if headings[index].label != "title":
            above = headings[index - 1].text.numbers[0] if index else 0
            yield headings[index].text.text, True, above


def _is_mode(label: str) -> bool:
    """A run-in heading of a paragraph: "Thinking mode. Use …"."""
    rest = list(label)
    for mention in modes.mentions(label, label=True):
        rest[mention.start : mention.end] = " " * (mention.end - mention.start)
    left = modes.FILLER.sub(" ", "".join(rest)).strip(" ,()")
    return not left and bool(modes.label_of(label).modes)


def _label(text: str, short: bool) -> modes.Label:
    if short and len(text.split()) <= 10:
        return modes.label_of(text)
    return modes.Label(modes.compose(modes.mentions(text)))


def _topic(block: Block) -> str | None:
    """The setting that the item above, a question, a label or a heading is about."""
    intro = block.intro
    texts = [heading.text.text for heading in reversed(block.headings) if heading.label != "title"]
    if intro is not None and (block.item or intro.text.text.rstrip()[-1:] in (":", "?")):
        texts.insert(0, intro.text.text)
    for text in texts:
        named = {name.setting for name in names(text)}
        if named:
            return named.pop() if len(named) == 1 and not figures(text) else None
    return None
