"""The mathematics of an assistant, and its way from a folder into memory.

One sequence at a time: activations are (1, rows, width). Its layers are mlx-lm's own of Gemma 4,
all of which take keys and values from elsewhere.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models.gemma4_text import DecoderLayer, ModelArgs

from llm_specdec.drafters.assistant.config import FULL, SLIDING, AssistantConfig
from llm_specdec.drafters.common.stored import Weights, fill, stored
from llm_specdec.engine.target import first_rows
from llm_specdec.errors import CheckpointError

Shared = Mapping[str, tuple[mx.array, mx.array]]  # type of layer → the target's keys and values
Masks = Mapping[str, mx.array | None]

_ORDERING = "masked_embedding.token_ordering"


class AssistantModel(Module):
    """`__call__` runs the layers, `next_hidden` and `logits` are what follows from their states."""

    def __init__(self, config: AssistantConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.pre_projection = Linear(2 * config.target_width, width, bias=False)
        args = _layer_args(config)
        self.layers = [DecoderLayer(args, i) for i in range(len(config.layers))]
        self.norm = RMSNorm(width, eps=config.eps)
        self.post_projection = Linear(width, config.target_width, bias=False)
        self.output = Embedding(config.vocab_size, width)
        if config.clusters:
            self.centroids = Linear(width, config.clusters, bias=False)
        self._read = config.read
        self._narrow: Any = None  # the beginning of the output matrix
        self._clusters: mx.array | None = None

    def gather(self, ordering: mx.array, clusters: int) -> None:
        """ordering (vocab,): the tokens of each cluster, one cluster after the other."""
        self._clusters = ordering.astype(mx.int32).reshape(clusters, -1)

    def __call__(
        self,
        embedded: mx.array,
        hidden: mx.array,
        shared: Shared,
        position: int,
        masks: Masks | None = None,
    ) -> mx.array:
        """Tokens as the target embeds them and hidden states of the target's width, (1, n, …) each
        → states (1, n, width). position: of the first row."""
        states = self.pre_projection(mx.concatenate([embedded, hidden], axis=-1))
        for layer in self.layers:
            mask = masks[layer.layer_type] if masks else None
            states, _, _ = layer(
                states, mask=mask, shared_kv=shared[layer.layer_type], offset=position
            )
        normed: mx.array = self.norm(states)
        return normed

    def next_hidden(self, states: mx.array) -> mx.array:
        """What takes the place of the target's hidden states in the pass after this one."""
        hidden: mx.array = self.post_projection(states)
        return hidden

    def logits(self, state: mx.array, rows: int) -> tuple[mx.array, mx.array | None]:
        """Of one state (width,): logits (n,), and the tokens that they are of; None: the first n
        of the vocabulary, at most `rows`."""
        if self._clusters is None:
            if rows >= self.output["weight"].shape[0]:
                return self.output.as_linear(state), None
            if self._narrow is None or self._narrow["weight"].shape[0] != rows:
                self._narrow = first_rows(self.output, rows)
            return self._narrow.as_linear(state), None
        best = mx.argpartition(self.centroids(state), kth=-self._read)[-self._read :]
        tokens = self._clusters[best].reshape(-1)
        return self.output(tokens) @ state, tokens


def _layer_args(config: AssistantConfig) -> ModelArgs:
    dims = config.head_dims
    return ModelArgs(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=len(config.layers),
        num_kv_shared_layers=len(config.layers),
        num_attention_heads=config.heads,
        head_dim=dims.get(SLIDING, 0),
        global_head_dim=dims.get(FULL, 0),
        rms_norm_eps=config.eps,
        vocab_size=config.vocab_size,
        layer_types=list(config.layers),
        rope_parameters={kind: dict(rope) for kind, rope in config.ropes.items()},
        sliding_window=config.window,
        hidden_size_per_layer_input=0,
        use_double_wide_mlp=False,
    )


def load(
    folder: Path,
    config: AssistantConfig,
    dtype: mx.Dtype = mx.float32,
    bits: int | None = None,
    group_size: int = 64,
) -> AssistantModel:
    """Build for the tensors of a folder, cast to `dtype` and, with `bits`, with its matrices
    quantised. Lazy: `ready` reads.

    Raises: CheckpointError.
    """
    weights = _renamed(stored(folder), config)
    ordering = weights.pop(_ORDERING, None)
    model = AssistantModel(config)
    if config.clusters:
        model.gather(_checked(folder, ordering, config.vocab_size), config.clusters)
    fill(model, weights, folder, dtype, bits, group_size, _packs)
    return model


def _packs(name: str, part: Module) -> bool:
    """The output matrix too, but what chooses clusters stays exact."""
    return isinstance(part, Linear | Embedding) and name != "centroids"


def _renamed(found: Weights, config: AssistantConfig) -> Weights:
    """Names of the files → those of `AssistantModel`; of two output matrices only the one used."""
    output, unused = "model.embed_tokens.", "lm_head."
    if not config.tied:
        output, unused = unused, output
    names = {name: re.sub(f"^{re.escape(output)}", "output.", name) for name in found}
    return {
        new.removeprefix("model.").replace("masked_embedding.centroids", "centroids"): found[name]
        for name, new in names.items()
        if not name.startswith(unused) and "rotary_emb." not in name
    }


def _checked(folder: Path, ordering: mx.array | None, vocab_size: int) -> mx.array:
    """Every token is in one cluster."""
    tokens: Sequence[int] = [] if ordering is None else ordering.tolist()  # type: ignore[assignment]
    if ordering is None or sorted(tokens) != list(range(vocab_size)):
        raise CheckpointError(
            f"{folder}: token_ordering does not name each of {vocab_size:,} tokens once: the "
            "files are damaged"
        )
    return ordering
