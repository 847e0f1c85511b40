"""A thinking budget: after so many tokens of thinking, the tokens that end it must come."""

from collections.abc import Sequence
from typing import NamedTuple

from llm_specdec.constraints.masks import Bits, begun, only
from llm_specdec.prompting.sections import REASONING, Sections


class _At(NamedTuple):
    """Where a text stands: inside thinking or not, tokens thought so far in all blocks, the last
    few tokens, and how many of the closing ones were forced already."""

    inside: bool
    thought: int
    tail: tuple[int, ...]
    forced: int = 0


class Budget:
    """A `Constraint`: within the budget all tokens are allowed, beyond it the model's own end of
    thinking alone. A block that is ending by itself is let end.

    section: the one that the first token of the output belongs to.
    """

    def __init__(self, sections: Sections, section: str, limit: int, vocab_size: int) -> None:
        assert sections.think_end
        self._start, self._end = sections.think_start, sections.think_end
        self._closing = sections.closing or sections.think_end
        self._limit, self._vocab_size = limit, vocab_size
        self._at = _At(section == REASONING, 0, ())

    def allowed(self, drafts: Sequence[int]) -> Bits | None:
        at = self._at
        for token in drafts:
            at = self._after(at, token)
        if not self._due(at):
            return None
        return only([self._closing[self._forced(at)]], self._vocab_size)

    def commit(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._at = self._after(self._at, token)

    def _due(self, at: _At) -> bool:
        return at.forced > 0 or (at.inside and at.thought >= self._limit)

    def _forced(self, at: _At) -> int:
        """How many of the closing tokens are there already, forced or written by the model."""
        return at.forced or begun(self._closing, at.tail)

    def _after(self, at: _At, token: int) -> _At:
        if self._due(at):
            forced = self._forced(at) + 1
            if forced < len(self._closing):
                return _At(True, at.thought, (), forced)
            return _At(False, at.thought, ())
        marker = self._end if at.inside else self._start
        tail = (*at.tail, token)[-len(marker) :]
        if tail == marker:
            return _At(not at.inside, at.thought, ())
        return _At(at.inside, at.thought + at.inside, tail)
