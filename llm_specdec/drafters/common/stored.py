"""A drafter's tensors as its files hold them."""

from pathlib import Path

import mlx.core as mx

from llm_specdec.errors import CheckpointError

Weights = dict[str, mx.array]


def stored(folder: Path) -> Weights:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} holds no safetensors file")
    weights: Weights = {}
    for file in files:
        try:
            weights.update(mx.load(str(file)))  # type: ignore[arg-type]
        except (OSError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"{file} cannot be read: {one_line(error)}") from error
    return weights


def draft_tokens(weights: Weights, rows: int, vocab_size: int) -> mx.array | None:
    """`d2t` holds offsets: row i of the output matrix is token i + d2t[i]."""
    if "d2t" not in weights:
        if rows < vocab_size:
            raise CheckpointError(
                f"its output matrix has {rows} rows of a vocabulary of {vocab_size}, and "
                "no d2t says for which tokens"
            )
        return None
    offsets = weights["d2t"].astype(mx.int32)
    if offsets.shape != (rows,):
        raise CheckpointError(
            f"d2t has {offsets.size} entries, the output matrix {rows} rows: they must agree"
        )
    tokens = offsets + mx.arange(rows, dtype=mx.int32)
    ids: list[int] = tokens.tolist()  # type: ignore[assignment]
    if min(ids) < 0 or max(ids) >= vocab_size or len(set(ids)) != rows:
        raise CheckpointError(
            f"d2t leads to tokens {min(ids)} to {max(ids)}, some of them twice or outside the "
            f"vocabulary of {vocab_size}"
        )
    if "t2d" in weights and sorted(ids) != _listed(weights["t2d"]):
        raise CheckpointError("t2d and d2t name different tokens: the files are damaged")
    return tokens


def _listed(known: mx.array) -> list[int]:
    return [token for token, is_known in enumerate(known.tolist()) if is_known]  # type: ignore[arg-type]


def cast(weights: Weights, dtype: mx.Dtype) -> Weights:
    """All floats in one precision: a mixed product would cast its matrix at every call."""
    return {
        name: value.astype(dtype) if mx.issubdtype(value.dtype, mx.floating) else value
        for name, value in weights.items()
    }


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
