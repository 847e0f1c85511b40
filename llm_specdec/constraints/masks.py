"""Which tokens may come next: masks over the vocabulary that follow from the text so far.

A constraint lives on the host and is asked with token ids; a pass over draft tokens is under
way on the device meanwhile. Masks are the last logits processor before truncation and the draw,
so a draft stays exact: a draft token that is not allowed has p = 0 at its row, is always
rejected there, and the residual is drawn from what is allowed.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# A row of a mask: bit t % 32 of word t // 32 stands for token t, (ceil(vocab / 32),) uint32.
Bits = NDArray[np.uint32]
EVERY = np.uint32(0xFFFFFFFF)  # a word with all its tokens allowed


class Constraint(Protocol):
    """Stateful, one a run. Draft tokens never enter its state."""

    def allowed(self, drafts: Sequence[int]) -> Bits | None:
        """The tokens that may follow the committed ones and `drafts`, at least one; None where
        all may. Asked any number of times between two commits. The answer does not matter
        after a draft token that is itself not allowed."""
        ...

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in the next tokens of the output."""
        ...


def row(constraints: Sequence[Constraint], drafts: Sequence[int]) -> Bits | None:
    """What all of them allow after `drafts`; None where that is every token."""
    masks = [bits for one in constraints if (bits := one.allowed(drafts)) is not None]
    return reduce(np.bitwise_and, masks) if masks else None


def rows(constraints: Sequence[Constraint], drafts: Sequence[int], first: int = 0) -> Bits | None:
    """The masks (k + 1 - first, words) of rows that follow `first` to all of k draft tokens; None
    where no row is constrained."""
    masks = [row(constraints, drafts[:i]) for i in range(first, len(drafts) + 1)]
    words = next((bits.size for bits in masks if bits is not None), None)
    if words is None:
        return None
    free = np.full(words, EVERY)
    return np.stack([free if bits is None else bits for bits in masks])


def only(tokens: Sequence[int], vocab_size: int) -> Bits:
    """The mask that allows these tokens alone."""
    ids = np.array(tokens, dtype=np.uint32)
    bits = np.zeros(-(-vocab_size // 32), dtype=np.uint32)
    np.bitwise_or.at(bits, ids // 32, np.uint32(1) << ids % 32)
    return bits


def begun(marker: tuple[int, ...], tail: tuple[int, ...]) -> int:
    """How many tokens of a marker, but not all of them, end a text."""
    sizes = range(len(marker) - 1, 0, -1)
    return next((n for n in sizes if tail[-n:] == marker[:n]), 0)


def tokens_of(bits: Bits) -> list[int]:
    """The tokens that a mask allows, in order."""
    spread = np.unpackbits(bits.astype("<u4").view(np.uint8), bitorder="little")
    return np.flatnonzero(spread).tolist()
