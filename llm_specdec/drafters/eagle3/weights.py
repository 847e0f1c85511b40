"""From a checkpoint's folder to an `Eagle3Model` in memory."""

import re
from pathlib import Path

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear

from llm_specdec.drafters.common.stored import Weights, draft_tokens, fill, stored
from llm_specdec.drafters.eagle3.config import Eagle3Config, stored_name
from llm_specdec.drafters.eagle3.model import Eagle3Model

_MAPS = ("d2t", "t2d")
_FOREIGN = re.compile(r"verifier_.*|.*rotary_emb\..*")  # the target's, or computed
_LOW_TO_HIGH = ("low", "mid", "high")


class Checkpoint(Module):
    """A drafter's model, and what it brings of its own: an embedding, an output matrix."""

    def __init__(self, config: Eagle3Config, weights: Weights) -> None:
        super().__init__()
        names = frozenset(name.removeprefix("model.") for name in weights)
        self.model = Eagle3Model(config, names)
        self._tokens: mx.array | None = None
        self.embedding: Embedding | None = None
        self.head: Linear | None = None
        if config.own_embedding:
            self.embedding = Embedding(config.vocab_size, config.hidden_size)
        if config.head_rows:
            self.head = Linear(config.hidden_size, config.head_rows, bias="head.bias" in weights)
            self._tokens = draft_tokens(weights, config.head_rows, config.vocab_size)

    @property
    def tokens(self) -> mx.array | None:
        """(rows,) int32: row i of the output matrix is token tokens[i]; None: token i."""
        return self._tokens


def load(
    folder: Path,
    config: Eagle3Config,
    dtype: mx.Dtype = mx.float32,
    bits: int | None = None,
    group_size: int = 64,
) -> Checkpoint:
    """Build for the tensors of a folder, cast to `dtype` and, with `bits`, with its matrices
    quantised. Lazy: `ready` reads.

    Raises: CheckpointError.
    """
    found = stored(folder)
    weights = {_name(n, config): value for n, value in found.items() if not _FOREIGN.fullmatch(n)}
    checkpoint = Checkpoint(config, weights)
    weights = {name: value for name, value in weights.items() if name not in _MAPS}
    fill(checkpoint, weights, folder, dtype, bits, group_size)
    return checkpoint


def _name(in_files: str, config: Eagle3Config) -> str:
    """A tensor's name in the files → its name in `Checkpoint`."""
    name = stored_name(in_files)
    if name in _MAPS:
        return name
    for theirs, ours in (("embed_tokens.", "embedding."), ("lm_head.", "head.")):
        if name.startswith(theirs):
            return name.replace(theirs, ours, 1)
    if config.norms == "whole":
        name = name.replace("fc_norm.weight", "input_norm.weight")
    for i, place in enumerate(_LOW_TO_HIGH):
        name = name.replace(f"aux_norm_{place}.", f"fc_norm.{i}.")
    return f"model.{name}"
