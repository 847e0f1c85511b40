"""The drafter the loop drives: what it was told, what it reads, how it draws."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import mlx.core as mx
from mlx_lm.models.gemma4_text import DecoderLayer

from llm_specdec.checkpoint import contents_of
from llm_specdec.drafters.assistant import KIND
from llm_specdec.drafters.assistant.config import SLIDING, AssistantConfig, read
from llm_specdec.drafters.assistant.model import AssistantModel, Shared
from llm_specdec.drafters.assistant.model import load as load_model
from llm_specdec.drafters.common.shortlist import NEVER, Shortlist
from llm_specdec.drafters.common.stored import ready
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap
from llm_specdec.engine.taps import decoder_layers
from llm_specdec.engine.target import Target
from llm_specdec.errors import PairingError


class Lent(Protocol):
    """Of `Draw`: the target's keys and values."""

    def keys_and_values(self, layer: int, rows: int | None = None) -> tuple[mx.array, mx.array]: ...


def load(
    folder: Path, target: Target, reads: str = "", bits: int | None = None, group_size: int = 64
) -> "AssistantDrafter":
    """Load an assistant for a loaded Gemma 4, in the target's precision. reads: one of the
    kind's `readings`, "" for the first.

    Raises: CheckpointError, PairingError.
    """
    config = read(contents_of(folder))
    embedded = target.embed(mx.array([0]))
    if embedded.shape[-1] != config.target_width:
        raise PairingError(
            f"{folder} is made for a target {config.target_width} wide, this one has "
            f"{embedded.shape[-1]}: take the assistant of this target"
        )
    layers = lenders(target)
    if missing := config.head_dims.keys() - layers.keys():
        raise PairingError(
            f"{folder} reads keys and values of {sorted(missing)[0]} layers of a Gemma 4, and the "
            "target has none: take a drafter made for this target"
        )
    reads = reads or next(iter(KIND.readings))
    if reads not in KIND.readings:
        raise PairingError(f"{folder}: an assistant does not look back from {reads!r}: add it anew")
    model = load_model(folder, config, embedded.dtype, bits, group_size)
    ready(model)
    return AssistantDrafter(config, model, target, layers, reads)


def lenders(target: Target) -> dict[str, int]:
    """By type: the target's last layer that computes keys and values of its own."""
    layers = enumerate(decoder_layers(target.model))
    return {
        layer.layer_type: i
        for i, layer in layers
        if isinstance(layer, DecoderLayer) and layer.self_attn.has_kv
    }


class AssistantDrafter:
    """Keeps nothing but the last hidden state: what it attends to is the target's own cache.

    A pass takes a token and the hidden state before it, first the target's, then its own. All
    passes of a draft look back from one position over the same rows.
    """

    kind = source = "assistant"
    taps: tuple[Tap, ...] = ("final_norm",)
    max_draft: int | None = None

    def __init__(
        self,
        config: AssistantConfig,
        model: AssistantModel,
        target: Target,
        layers: Mapping[str, int],
        reading: str,
    ) -> None:
        self.config, self.model, self.target = config, model, target
        self._layers = {kind: layers[kind] for kind in config.head_dims}
        self._back = list(KIND.readings).index(reading)  # positions before the last token's
        self._shortlist = Shortlist(target.vocab_size)
        self._clear([])

    def _clear(self, tokens: Sequence[int]) -> None:
        self._length = len(tokens)
        self._pending = tokens[-1] if tokens else 0
        self._hidden: mx.array | None = None  # the target's (1, its width), before the last token
        self._shortlist.start(tokens)

    # What it is told

    def start(self, token: int) -> None:
        self._clear([token])

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self._length += len(next_tokens)
        self._pending, self._hidden = next_tokens[-1], hidden["final_norm"][-1:]
        self._shortlist.watch(next_tokens)

    # What it proposes

    def ready(self) -> bool:
        return self._hidden is not None

    def propose(self, k: int, draw: Draw) -> Proposal:
        assert self._hidden is not None, "propose before ready()"
        shared, position = self.shared(draw), self._length - 1 - self._back
        token, hidden, drafted = mx.array(self._pending), self._hidden, list[mx.array]()
        while True:
            states = self.model(self.embed(token[None])[None], hidden[None], shared, position)[0]
            token = self.drawn(states[0], drafted, draw)
            drafted.append(token)
            if len(drafted) == k:
                return draw.proposal(mx.stack(drafted))
            hidden = self.model.next_hidden(states)

    def shared(self, lent: Lent, whole: bool = False) -> Shared:
        """The rows that each type of layer sees; `whole`: all that the target's cache holds."""
        rows = {SLIDING: None if whole else self.config.window}
        return {k: lent.keys_and_values(i, rows.get(k)) for k, i in self._layers.items()}

    def embed(self, tokens: mx.array) -> mx.array:
        """(n,) → (n, the target's width), scaled as Gemma scales what goes into its layers."""
        embedded: mx.array = self.target.embed(tokens) * self.config.target_width**0.5
        return embedded

    def drawn(self, state: mx.array, drafted: list[mx.array], draw: Draw) -> mx.array:
        """The next draft token, a scalar."""
        if draw.plain:  # no row over the whole vocabulary is needed
            return self.best(state)
        return draw.one(self._whole(*self.logits(state)), drafted)

    def best(self, state: mx.array) -> mx.array:
        """The token that one state (width,) makes most likely, a scalar."""
        logits, tokens = self.logits(state)
        best: mx.array = mx.argmax(logits).astype(mx.int32)
        if tokens is not None:
            best = tokens[best]
        return best

    def logits(self, state: mx.array) -> tuple[mx.array, mx.array | None]:
        """As those of the model, of tokens that the target has."""
        size = self.target.vocab_size
        logits, tokens = self.model.logits(state, self._shortlist.rows)
        if tokens is None:
            return logits[:size], None
        if self.config.vocab_size > size:
            logits = mx.where(tokens < size, logits, NEVER)
        return logits, tokens

    def _whole(self, logits: mx.array, tokens: mx.array | None) -> mx.array:
        """(vocab,) float32: tokens that are left out have no chance."""
        size = self.target.vocab_size
        if tokens is None:
            return self._shortlist.whole(logits[None])[0]
        nothing = mx.full((max(size, self.config.vocab_size),), NEVER, dtype=mx.float32)
        whole: mx.array = mx.put_along_axis(nothing, tokens, logits.astype(mx.float32), axis=0)
        return whole[:size]

    # What the prefix cache keeps: nothing. The last token of a prompt is always read again, and
    # with it comes the hidden state.

    def state(self) -> list[mx.array]:
        return []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self._clear(tokens)
