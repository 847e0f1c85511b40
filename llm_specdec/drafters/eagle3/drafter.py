"""The drafter the loop drives: what it reads of the target, and how it draws."""

from pathlib import Path
from typing import Any

import mlx.core as mx

from llm_specdec.checkpoint import contents_of
from llm_specdec.drafters.common.lender import Lender
from llm_specdec.drafters.common.recurrent import RecurrentDrafter
from llm_specdec.drafters.common.shortlist import NEVER
from llm_specdec.drafters.common.stored import ready
from llm_specdec.drafters.eagle3.config import Eagle3Config, read
from llm_specdec.drafters.eagle3.fit import needs_same_width
from llm_specdec.drafters.eagle3.weights import Checkpoint
from llm_specdec.drafters.eagle3.weights import load as load_weights
from llm_specdec.engine.drafter import Draw, Tap
from llm_specdec.errors import PairingError


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
    ready(checkpoint)
    return Eagle3Drafter(config, checkpoint, target, layers, reads or readings[0])


def taps_of(config: Eagle3Config, reading: str, layers: int) -> tuple[Tap, ...]:
    if reading == "final_norm":
        return ("final_norm",)
    ids = config.layer_ids(reading, layers)
    return tuple("embedding" if i < 0 else i for i in ids)


class Eagle3Drafter(RecurrentDrafter):
    kind = source = "eagle3"

    def __init__(
        self,
        config: Eagle3Config,
        checkpoint: Checkpoint,
        target: Lender,
        layers: int,
        reading: str,
    ) -> None:
        """layers: of the target."""
        self.config, self.model = config, checkpoint.model
        self.layers, self.reading = layers, reading
        self.taps = taps_of(config, reading, layers)
        self.embed: Any = checkpoint.embedding or target.embed
        self._head: Any = checkpoint.head
        if checkpoint.head is None and config.tied and checkpoint.embedding is not None:
            self._head = checkpoint.embedding.as_linear
        self.tokens = checkpoint.tokens
        known = None if self.tokens is None else self.tokens < target.vocab_size
        self._unknown = None if known is None or mx.all(known).item() else ~known
        super().__init__(target, config.layers)

    def _pass(self, tokens: mx.array, states: mx.array) -> mx.array:
        output: mx.array = self.model(self.embed(tokens)[None], states, self._caches)[0]
        return output

    def _fused(self, states: mx.array) -> mx.array:
        return self.model.fuse(states)

    def _norm(self, output: mx.array) -> mx.array:
        normed: mx.array = self.model.norm(output)
        return normed

    def _fed_back(self, output: mx.array, normed: mx.array) -> mx.array:
        return normed if self.config.norm_output else output

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
