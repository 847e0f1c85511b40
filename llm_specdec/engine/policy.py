"""How many draft tokens a round asks for.

A policy must not read the clock: with the same seed and the same stored measurements a run
drafts the same lengths, so sampled text can be repeated (DESIGN §4.5).
"""

from typing import Protocol


class Policy(Protocol):
    def length(self) -> int:
        """Draft tokens to ask for in the next round; 0 decodes one token without drafting."""
        ...

    def observe(self, drafted: int, accepted: int) -> None:
        """Told after every round with draft tokens."""
        ...


class Fixed:
    """Always the same length: a pinned `--draft-tokens N`, or 0 for the target alone."""

    def __init__(self, length: int) -> None:
        self._length = length

    def length(self) -> int:
        return self._length

    def observe(self, drafted: int, accepted: int) -> None:
        pass
