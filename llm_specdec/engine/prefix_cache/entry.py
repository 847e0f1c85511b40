"""What the prefix cache keeps, and how it is asked for.

One convention for target and drafter. After committed tokens c[0..n] (n + 1 of them) the
target's state covers the first n, and the drafter was told all n + 1: what its state holds of
position n - 1 may depend on the token that follows. So an entry's `tokens` are c[0..n], and a
prompt can use as many positions as it has tokens in common with them, less one. The last token
of a prompt is thereby always read again, which gives the logits of the first token.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import mlx.core as mx
import numpy as np


@dataclass(frozen=True)
class Key:
    """Everything but the tokens that a state depends on, as readable parts."""

    parts: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the parts, in any order."""
        return hashlib.sha256(json.dumps(dict(self.parts), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """tokens: c[0..n], see above. target, drafter: their `state()`, exact lengths, evaluated;
    nobody writes into these arrays. exact: the state serves n positions or none (recurrent
    layers, windows that have moved on); otherwise it can be cut to any shorter length."""

    tokens: tuple[int, ...]
    target: list[mx.array]
    drafter: list[mx.array]
    exact: bool

    @property
    def length(self) -> int:
        """Positions covered."""
        return len(self.tokens) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the states."""
        return sum(array.nbytes for array in (*self.target, *self.drafter))


@dataclass(frozen=True)
class Found:
    """An entry and how many of its positions the prompt can use (at least one). A tier that
    must read them may give an entry cut to just these."""

    entry: Entry
    length: int


class Tier(Protocol):
    """One place that keeps entries. Never raises for what it holds or cannot hold: an entry that
    is damaged is not there, one that does not fit is not put."""

    def longest(self, key: Key, prompt: Sequence[int], beyond: int = 0) -> Found | None:
        """The entry with the most usable positions, its arrays in memory (evaluated); None
        where there are no more than `beyond`, and then nothing needs to be read."""
        ...

    def put(self, key: Key, entry: Entry) -> None:
        """Keep the entry, and let go of others where room is needed."""
        ...


def usable(tokens: Sequence[int], exact: bool, prompt: Sequence[int]) -> int:
    """How many positions of an entry with these `tokens` the prompt can use; 0: none."""
    same = common(tokens, prompt)
    return 0 if exact and same < len(tokens) else max(same - 1, 0)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common beginning."""
    n = min(len(a), len(b))
    differ = np.not_equal(np.asarray(a[:n]), np.asarray(b[:n]))
    first = int(differ.argmax()) if n else 0
    return first if n and differ[first] else n


def covers(same: int, tokens: int) -> bool:
    """Whether an entry stands for another of `tokens` tokens when it has the first `same` of
    them: what else that one holds, the last turn or the last question, is soon read again and
    not worth its bytes. Both tiers keep to it."""
    return 8 * same >= 7 * tokens
