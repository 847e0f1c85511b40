"""From a checkpoint's folder to a `BlockModel` in memory."""

import re
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear

from llm_specdec.drafters.common.stored import Weights, draft_tokens, fill, stored
from llm_specdec.drafters.dflash.config import DFlashConfig
from llm_specdec.drafters.dflash.model import BlockModel

_FUSED = {
    "self_attn.kv_proj": ("self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
}
# Not the drafter's: what `speculators` stores of the target, and what only training uses.
_FOREIGN = re.compile(r"^(verifier_|t2d$|rotary_emb\.)")


class OutputMatrix(Module):
    """A drafter's own output matrix; row i is the target's token `tokens[i]`."""

    def __init__(self, rows: int, hidden: int, tokens: mx.array | None) -> None:
        super().__init__()
        self.matrix = Linear(hidden, rows, bias=False)
        self._tokens = tokens

    @property
    def tokens(self) -> mx.array | None:
        """(rows,) int32, None where row i is token i."""
        return self._tokens

    def __call__(self, hidden: mx.array) -> mx.array:
        found: mx.array = self.matrix(hidden)
        return found


class Checkpoint(Module):
    """A model and what it brings of its own: an embedding, an output matrix, or neither."""

    def __init__(self, config: DFlashConfig, weights: Weights, model: BlockModel) -> None:
        super().__init__()
        self.model = model
        self.embedding: Embedding | None = None
        self.head: OutputMatrix | None = None
        if "embedding.weight" in weights:
            self.embedding = Embedding(config.vocab_size, config.hidden_size)
        if "head.matrix.weight" in weights:
            rows = weights["head.matrix.weight"].shape[0]
            self.head = OutputMatrix(
                rows, config.hidden_size, draft_tokens(weights, rows, config.vocab_size)
            )


def load(
    folder: Path,
    config: DFlashConfig,
    dtype: mx.Dtype = mx.float32,
    bits: int | None = None,
    group_size: int = 64,
    make: Callable[[Weights], BlockModel] | None = None,
) -> Checkpoint:
    """Build for the tensors of a folder, cast to `dtype` and, with `bits`, with its matrices
    quantised. Lazy: `ready` reads. make: builds the model; without it, DFlash's.

    Raises: CheckpointError.
    """
    weights = _renamed(stored(folder), config)
    checkpoint = Checkpoint(config, weights, make(weights) if make else BlockModel(config))
    weights.pop("d2t", None)
    fill(checkpoint, weights, folder, dtype, bits, group_size)
    return checkpoint


def _renamed(found: Weights, config: DFlashConfig) -> Weights:
    """Tensor names of the files → those of `Checkpoint`, products over the same input fused."""
    weights = {_name(key): value for key, value in found.items() if not _FOREIGN.match(key)}
    for i in range(config.layers):
        for fused, (one, two) in _FUSED.items():
            prefix = f"model.layers.{i}."
            for part in ("weight", "scales", "biases"):
                names = [f"{prefix}{name}.{part}" for name in (one, two)]
                if all(name in weights for name in names):
                    pieces = [weights.pop(name) for name in names]
                    weights[f"{prefix}{fused}.{part}"] = mx.concatenate(pieces)
    return weights


def _name(stored: str) -> str:
    """Codebooks are stored with or without `.weight`, the body with or without `model.`."""
    name = stored.removeprefix("model.")
    if name == "d2t":
        return name
    if name.startswith("embed_tokens."):
        return name.replace("embed_tokens", "embedding", 1)
    if name.startswith("lm_head."):
        return name.replace("lm_head", "head.matrix", 1)
    if name.endswith("_codebook"):
        name += ".weight"
    return f"model.{name}"
