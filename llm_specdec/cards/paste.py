"""Parts of a card that are another model's card, pasted in and marked as such."""

import re

from llm_specdec.cards.blocks import LABEL_LEVEL, Block
from llm_specdec.cards.words import words

FORWARD = re.compile(
    r":\s*$|\b(?:below|follow\w*|quoted|copied|pasted|verbatim|unchanged)\b|以下|下面"
)


class Paste:
    """Follows a card block by block.

    A mark covers the quote or code block right below it. A heading (or a label with neither
    below) covers its section, if the first heading inside is deeper; a pasted card that brings
    headings of its own rank covers all that follows, up to words like "about this quant".
    """

    def __init__(self) -> None:
        self.mark: Block | None = None  # its quote or code block is next, or going on
        self.heading: Block | None = None  # its section is going on
        self.scoped: bool | None = None  # None until the first heading inside

    def covers(self, block: Block) -> bool:
        """Whether a block, met in order, belongs to a pasted card."""
        if self.heading is not None and block.kind == "heading" and self._ends_at(block):
            self.heading = None
        if self.heading is not None:
            return True
        mark, self.mark = self.mark, None
        if mark is not None and (block.kind == "code" or block.quoted > mark.quoted):
            self.mark = mark
            return True
        if (
            mark is not None
            and mark.kind == "heading"
            and block.headings
            and mark is block.headings[-1]
        ):
            self.heading, self.scoped = mark, None
            return True
        return self._starts(block)

    def _starts(self, block: Block) -> bool:
        text = block.text.text
        if text not in words("headings.pasted"):
            return False
        if block.kind == "heading" and block.label != "colon":
            self.heading, self.scoped = block, None
            return True
        if block.kind == "heading" or (block.kind == "text" and FORWARD.search(text)):
            self.mark = block
        return block.kind == "heading"

    def _ends_at(self, block: Block) -> bool:
        assert self.heading is not None
        own = block.text.text in words("headings.own") and block.text.text not in words(
            "headings.pasted"
        )
        if own:
            return True
        if block.level >= LABEL_LEVEL:
            return False
        deeper = block.level > self.heading.level
        if self.scoped is None:
            self.scoped = deeper
        return self.scoped and not deeper
