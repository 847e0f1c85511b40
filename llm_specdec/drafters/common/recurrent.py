"""Drafting deeper by feeding a drafter's own states back: what such drafters have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from llm_specdec.drafters.common.lender import Lender
from llm_specdec.drafters.common.shortlist import Shortlist
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap

CHUNK = 64  # committed rows that are worth a pass of their own, as in prefill


class RecurrentDrafter(ABC):
    """Slot p of its caches holds what it made of (token p+1, the target's hidden states at p).

    Committed rows wait in `_rows` and run in one pass with the next draft, which starts from the
    last of them: one pass a draft token, whatever was accepted. Slots that a draft filled from
    the drafter's own states are dropped as soon as the true rows arrive.

    layers: of the drafter, each with a cache of its own. Shapes: output (n, hidden).
    """

    taps: tuple[Tap, ...]
    max_draft: int | None = None

    def __init__(self, target: Lender, layers: int = 1) -> None:
        self.target, self._layers = target, layers
        self._shortlist = Shortlist(target.vocab_size)
        self._clear()

    def _clear(self) -> None:
        self._caches = [KVCache() for _ in range(self._layers)]
        self._slots = 0  # slots that hold true rows
        self._rows: list[tuple[mx.array, mx.array]] = []  # waiting: tokens (n,), states (n, w)
        self._last: mx.array | None = None  # its output (1, hidden) of the last true slot

    # What a kind says

    @abstractmethod
    def _pass(self, tokens: mx.array, states: mx.array) -> mx.array:
        """tokens (n,), states (1, n, hidden) → its output, lazily, n slots later."""

    def _fused(self, states: mx.array) -> mx.array:
        """The target's states side by side, (1, n, w) → (1, n, hidden)."""
        return states

    @abstractmethod
    def _norm(self, output: mx.array) -> mx.array:
        """What goes into the output matrix."""

    @abstractmethod
    def _fed_back(self, output: mx.array, normed: mx.array) -> mx.array:
        """Its own states, in the form in which the true ones come: normed or not."""

    @abstractmethod
    def drawn(self, normed: mx.array, drafted: list[mx.array], draw: Draw) -> mx.array:
        """The next draft token, a scalar, of one normed row, after those `drafted`."""

    # What it is told

    def start(self, token: int) -> None:
        self._clear()
        self._shortlist.start([token])

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self._drop_drafts()
        self._shortlist.watch(next_tokens)
        states = mx.concatenate([hidden[tap] for tap in self.taps], axis=-1)
        self._rows.append((mx.array(list(next_tokens), dtype=mx.int32), states))
        if sum(tokens.size for tokens, _ in self._rows) >= CHUNK:
            self._read_rows()

    def _drop_drafts(self) -> None:
        for cache in self._caches:
            cache.trim(cache.offset - self._slots)

    def _read_rows(self) -> None:
        """Run the waiting rows in one pass; only the last one's output is kept."""
        if not self._rows:
            return
        tokens, states = (mx.concatenate(list(part)) for part in zip(*self._rows, strict=True))
        self._rows.clear()
        self._last = self._pass(tokens, self._fused(states[None]))[-1:]
        self._slots = self._caches[0].offset

    # What it proposes

    def ready(self) -> bool:
        return bool(self._rows) or self._last is not None

    def propose(self, k: int, draw: Draw) -> Proposal:
        self._drop_drafts()
        self._read_rows()
        assert self._last is not None, "propose before ready()"
        output, drafted = self._last, list[mx.array]()
        while True:
            normed = self._norm(output)
            drafted.append(self.drawn(normed, drafted, draw))
            if len(drafted) == k:
                return draw.proposal(mx.stack(drafted))
            output = self._pass(drafted[-1][None], self._fed_back(output, normed)[None])

    # What the prefix cache keeps

    def state(self) -> list[mx.array]:
        """Keys and values of the true slots, layer by layer, tokens along axis 2; none before
        the first row."""
        self._drop_drafts()
        self._read_rows()
        if not self._slots:
            return []
        return [array for cache in self._caches for array in cache.keys_and_values()]

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self._clear()
        self._shortlist.start(tokens)
        if arrays and len(tokens) > 1:
            self._slots = len(tokens) - 1
            cut = [array[:, :, : self._slots] for array in arrays]
            for cache, keys, values in zip(self._caches, cut[::2], cut[1::2], strict=True):
                cache.state = keys, values, self._slots
