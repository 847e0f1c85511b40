"""What stands around a block: does it recommend, which modes and which setting does it name?"""

import re
from collections.abc import Iterator

from llm_specdec.cards import modes
from llm_specdec.cards.blocks import LABEL_LEVEL, Block
from llm_specdec.cards.figures import names, read
from llm_specdec.cards.rules import Context, Verdict, sentences, verdict
from llm_specdec.cards.words import words

CALLOUT = re.compile(
    r"\W*(?:notes?|tips?|hint|important|attention|warning|nota|remarque|hinweis|wichtig|внимание|注意|重要)\W*",
    re.IGNORECASE,
)
DEEPEST = 12  # lists within lists
SIZE = re.compile(r"(?<![\w.])(\d{1,5}(?:\.\d{1,3})?)\s?[Bb](?![a-z])")
FOR_A_SIZE = re.compile(
    r"\b(?:for|on|with|für|pour|para|per|для)\s+(?:the\s+|our\s+)?[\w./-]{0,40}?" + SIZE.pattern
)


class Around:
    """Everything around one block.

    topic: the one setting that the heading, label or item above is about.
    sections: lines of the headings and labels above, 0 for the card.
    """

    def __init__(self, block: Block, repo: str) -> None:
        above = list(_ancestry(block))
        verdicts = [(*verdict(text), text) for text in above]
        said = [entry for entry in verdicts if entry[0] is not Verdict.NEUTRAL]
        found, rule, text = said[0] if said else (Verdict.NEUTRAL, "", "")
        if _is_cited(block):
            found, rule = Verdict.QUOTED, "quotation"
        settings = any(
            words_of in words("headings.settings") and words_of not in words("headings.other")
            for words_of in above
        )
        labels = list(_label_texts(block))
        if any(short and is_for_another_size(label, repo) for label, short, _ in labels):
            found, rule = Verdict.QUOTED, "another size of the model"
        usage = any(text in words("headings.usage") for text in above)
        self.context = Context(found, rule, settings, usage)
        self.required = (
            found is Verdict.ADVICE
            and text in words("cues.required")
            and text not in words("cues.optional")
        )
        self.labels = [(_label(text, short), section) for text, short, section in labels]
        self.sections = {0, *(heading.first for heading in block.headings)}
        self.topic = _topic(block)


def is_for_another_size(text: str, repo: str) -> bool:
    """Whether a label names sizes ("14B"), none of them that of the repository."""
    name = re.sub(r"[-_]", " ", repo.rstrip("/").rpartition("/")[2])
    sizes, own = set(SIZE.findall(text)), set(SIZE.findall(name))
    return bool(sizes) and bool(own) and not sizes & own


def speaks_of_another_size(sentence: str, repo: str) -> bool:
    """ "For the 14B we recommend …" on the card of the 7B."""
    return any(is_for_another_size(m[0], repo) for m in FOR_A_SIZE.finditer(sentence))


def _is_cited(block: Block) -> bool:
    """A quote below "A user wrote:": words of someone else, unless they are announced as advice."""
    label = block.headings[-1] if block.headings and block.headings[-1].label == "colon" else None
    above = block.intro or label
    if not block.quoted or above is None or above.quoted == block.quoted or not above.opens:
        return False
    text = above.text.text
    return verdict(text)[0] is not Verdict.ADVICE and not CALLOUT.fullmatch(text)


def _intros(block: Block) -> Iterator[tuple[Block, Block]]:
    """(block, what introduces it), from the nearest outwards; a mere neighbour ends the chain."""
    for _ in range(DEEPEST):
        intro = block.intro
        if intro is None or (block.kind == "text" and not block.item and not intro.opens):
            return
        yield block, intro
        block = intro


def _ancestry(block: Block) -> Iterator[str]:
    """Texts that introduce a block, nearest first; a card's title introduces nothing."""
    for below, intro in _intros(block):
        text = _introducing(intro, below)
        if text:
            yield text
    for heading in reversed(block.headings):
        if heading.label != "title":
            yield heading.text.text


def _introducing(intro: Block, block: Block) -> str:
    """The last sentence before a block, unless it is complete in itself (has own figures)."""
    text = intro.text.text
    if intro.kind == "heading":
        return text
    spans = sentences(text)
    last = text[spans[-1][0] :] if spans else text
    if intro.opens or (intro.item and block.item):
        return last
    if block.kind != "text" and read(last).figures:
        return ""
    points = last in words("headings.settings") or last in words("headings.points_on")
    return last if points else ""


def item_label(text: str) -> str:
    """What stands before a list item's colon, dash or line break."""
    first = text.split("\n")[0]
    match = re.match(r"\s*([^:\n]{1,60}?)(?::|\.\s|\s[–—-]\s)", first)
    label = match[1] if match else (first if "\n" in text and not read(first).figures else "")
    return "" if names(label) or len(label.split()) > 12 else label


def _label_texts(block: Block) -> Iterator[tuple[str, bool, int]]:
    """(text, whether it is a label rather than a sentence, its section), nearest first."""
    headings = block.headings
    section = max((h.first for h in headings if h.level < LABEL_LEVEL), default=0)
    if block.kind == "text":
        label = item_label(block.text.text)
        if block.item or (label and _is_mode(label)):
            yield label, True, section
    for below, intro in _intros(block):
        text = intro.text.text
        if intro.item:
            yield item_label(text) or (text if len(text) < 60 else ""), True, section
        elif below.kind != "text" or below.item:
            yield text, intro.opens and len(text) < 100, section
    for index in range(len(headings) - 1, -1, -1):
        if headings[index].label != "title":
            yield headings[index].text.text, True, headings[index - 1].first if index else 0


def _is_mode(label: str) -> bool:
    """A run-in heading of a paragraph: "Thinking mode. Use …"."""
    rest = label
    for mention in modes.mentions(label, label=True):
        rest = rest.replace(label[mention.start : mention.end], " ")
    return not words("modes.filler").pattern.sub(" ", rest).strip(" ,()") and bool(
        modes.label_of(label).modes
    )


def _label(text: str, short: bool) -> modes.Label:
    if short and len(text.split()) <= 10:
        return modes.label_of(text)
    return modes.Label(modes.compose(modes.mentions(text[:500])))


def _topic(block: Block) -> str:
    intro = block.intro
    texts = [h.text.text for h in reversed(block.headings) if h.label != "title"]
    if intro is not None and (block.item or intro.text.text.rstrip()[-1:] in (":", "?")):
        texts.insert(0, intro.text.text)
    for text in texts:
        named = {name.setting for name in names(text)}
        if named:
            return named.pop() if len(named) == 1 and not read(text).figures else ""
    return ""
