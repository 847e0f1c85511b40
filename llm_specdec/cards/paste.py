"""Parts of a card that are another model's card, pasted in and marked as such."""

import re

from llm_specdec.cards import lexicon as lex
from llm_specdec.cards.blocks import LABEL_LEVEL, Block


class Paste:
    """Follows a card for parts that are another model's card, marked as such."""

    def __init__(self) -> None:
        self.heading: Block | None = None
        self.to_the_end = False
        self.armed: Block | None = None

    def covers(self, block: Block) -> bool:
        """Whether a block, met in order, belongs to a pasted card."""
        if block.kind == "heading" and self.heading is not None:
            self._at_heading(block)
        if self.heading is not None:
            return True
        if self._starts(block):
            return True
        armed, self.armed = self.armed, None
        if armed is not None and (block.kind == "code" or block.quoted > armed.quoted):
            self.armed = armed if block.quoted > armed.quoted else None
            return True
        text = block.text.text
        if block.kind == "text" and text in lex.PASTED and _announces(text):
            self.armed = block
        return False

    def _starts(self, block: Block) -> bool:
        if block.kind == "heading" and block.text.text in lex.PASTED:
            self.heading = block
            self.to_the_end = False
            return True
        return False

    def _at_heading(self, block: Block) -> None:
        assert self.heading is not None
        if (block.text.text in lex.PASTE_ENDS and block.text.text not in lex.PASTED) or (
            self.heading.folded and block.folded != self.heading.folded
        ):
            self.heading = None
        elif self.heading.level < LABEL_LEVEL and not self.to_the_end:
            self.to_the_end = block.level <= self.heading.level


def _announces(text: str) -> bool:
    return text.rstrip().endswith(":") or bool(
        re.search(
            r"\b(?:below|follow\w*|quoted|copied|pasted|verbatim|unchanged)\b|以下|下面", text
        )
    )
