"""The drafter the loop drives: what it was told, when it computes, how it draws."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from llm_specdec.checkpoint import contents_of
from llm_specdec.drafters.common.lender import Lender
from llm_specdec.drafters.common.shortlist import NEVER, Shortlist
from llm_specdec.drafters.eagle3.config import Eagle3Config, read
from llm_specdec.drafters.eagle3.fit import needs_same_width
from llm_specdec.drafters.eagle3.weights import Checkpoint
from llm_specdec.drafters.eagle3.weights import load as load_weights
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap
from llm_specdec.errors import PairingError

CHUNK = 64  # committed rows that are worth a pass of their own, as in prefill


def load(
    folder: Path,
    target: Lender,
    layers: int,
    reads: str = "",
    bits: int | None = None,
    group_size: int = 64,
) -> "Eagle3Drafter":
    """Load an EAGLE-3 checkpoint for a loaded target of so many layers, in the target's
    precision. reads: what its layer ids mean, "" as its dialect usually means them.

    Raises: CheckpointError, PairingError.
    """
    config = read(contents_of(folder))
    embedded = target.embed(mx.array([0]))
    width = embedded.shape[-1]
    if config.fused != config.taps * width or (
        needs_same_width(config) and width != config.hidden_size
    ):
        raise PairingError(
            f"{folder} reads {config.taps} hidden states of {config.fused // config.taps}, the "
            f"target has {width}: take the drafter trained for this target"
        )
    readings = config.readings(layers)
    if not readings or (reads and reads not in readings):
        raise PairingError(f"{folder} reads layers that a target of {layers} layers does not have")
    checkpoint = load_weights(folder, config, embedded.dtype, bits, group_size)
    return Eagle3Drafter(config, checkpoint, target, layers, reads or readings[0])


def taps_of(config: Eagle3Config, reading: str, layers: int) -> tuple[Tap, ...]:
    if reading == "final_norm":
        return ("final_norm",)
    ids = config.layer_ids(reading, layers)
    return tuple("embedding" if i < 0 else i for i in ids)


class Eagle3Drafter:
    """Drafts deeper by feeding its own states back.

    Slot p of its caches holds what it made of (token p+1, the target's hidden states at p).
    Committed rows wait and run in one pass with the next draft; slots that a draft filled from
    the drafter's own states are dropped as soon as the true rows arrive.
    """

    kind = source = "eagle3"
    max_draft: int | None = None

    def __init__(
        self,
        config: Eagle3Config,
        checkpoint: Checkpoint,
        target: Lender,
        layers: int,
        reading: str,
    ) -> None:
        self.config, self.model, self.target = config, checkpoint.model, target
        self.layers, self.reading = layers, reading
        self.taps = taps_of(config, reading, layers)
        self.embed: Any = checkpoint.embedding or target.embed
        self._head: Any = checkpoint.head
        if checkpoint.head is None and config.tied and checkpoint.embedding is not None:
            self._head = checkpoint.embedding.as_linear
        self.tokens = checkpoint.tokens
        known = None if self.tokens is None else self.tokens < target.vocab_size
        self._unknown = None if known is None or mx.all(known).item() else ~known
        self._shortlist = Shortlist(target.vocab_size)
        self._clear()

    def _clear(self) -> None:
        self._caches = [KVCache() for _ in range(self.config.layers)]
        self._slots = 0  # slots that hold true rows
        self._rows: list[tuple[mx.array, mx.array]] = []  # waiting: tokens (n,), states (n, w)
        self._last: mx.array | None = None  # its states (1, hidden) in the last true slot

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
        """Run the waiting rows in one pass; only the last one's states are kept."""
        if not self._rows:
            return
        tokens, states = (mx.concatenate(list(part)) for part in zip(*self._rows, strict=True))
        self._rows.clear()
        self._last = self._pass(tokens, self.model.fuse(states[None]))[-1:]
        self._slots = self._caches[0].offset

    def _pass(self, tokens: mx.array, states: mx.array) -> mx.array:
        """tokens (n,), states (1, n, hidden) → its states (n, hidden), lazily, n slots later."""
        output: mx.array = self.model(self.embed(tokens)[None], states, self._caches)[0]
        return output

    # What it proposes

    def ready(self) -> bool:
        return bool(self._rows) or self._last is not None

    def propose(self, k: int, draw: Draw) -> Proposal:
        self._drop_drafts()
        self._read_rows()
        assert self._last is not None, "propose before ready()"
        output, drafted = self._last, list[mx.array]()
        while True:
            normed = self.model.norm(output)
            drafted.append(self.drawn(normed, drafted, draw))
            if len(drafted) == k:
                return draw.proposal(mx.stack(drafted))
            states = normed if self.config.norm_output else output
            output = self._pass(drafted[-1][None], states[None])

    def drawn(self, normed: mx.array, drafted: list[mx.array], draw: Draw) -> mx.array:
        """The next draft token, a scalar, of normed states (1, hidden)."""
        logits = self.logits(normed)
        if self.tokens is not None:
            if draw.plain:  # no row over the whole vocabulary is needed
                return self.chosen(logits)[0]
            logits = self._scattered(logits)
        elif not draw.plain:
            logits = self._shortlist.whole(logits)
        return draw.one(logits[0], drafted)

    def logits(self, normed: mx.array) -> mx.array:
        """(n, hidden) → (n, rows): of the drafter's own tokens, or of the common ones."""
        if self._head is None:
            return self.target.head(normed, self._shortlist.rows)
        logits: mx.array = self._head(normed)
        if self.tokens is None:
            return logits[:, : self.target.vocab_size]  # its own matrix may have more padding
        return logits if self._unknown is None else mx.where(self._unknown, NEVER, logits)

    def chosen(self, logits: mx.array) -> mx.array:
        """The highest of each row of `logits`, as tokens of the target (n,)."""
        rows = mx.argmax(logits, axis=-1)
        return rows.astype(mx.int32) if self.tokens is None else self.tokens[rows]

    def _scattered(self, logits: mx.array) -> mx.array:
        """(1, rows) → (1, vocab) float32: the other tokens have no chance."""
        size = max(self.target.vocab_size, self.config.vocab_size)
        whole = mx.full((1, size), NEVER, dtype=mx.float32)
        assert self.tokens is not None
        whole = mx.put_along_axis(whole, self.tokens[None], logits.astype(mx.float32), axis=-1)
        return whole[:, : self.target.vocab_size]

    # What the prefix cache keeps

    def state(self) -> list[mx.array]:
        """Keys and values of the true slots, layer by layer, tokens along axis 2."""
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
