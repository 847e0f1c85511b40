"""A drafter's tensors as its files hold them, and their way into memory."""

from pathlib import Path

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import quantize

from llm_specdec.engine.hardware import skinny_matmul
from llm_specdec.engine.taps import evaluate
from llm_specdec.errors import CheckpointError

Weights = dict[str, mx.array]
Quantisation = tuple[int, int] | None  # (bits, group size) of stored matrices


def check_bits(folder: Path, quantisation: Quantisation, bits: int | None) -> None:
    """Raises CheckpointError where `bits` are asked of what is stored in few already."""
    if bits and quantisation:
        raise CheckpointError(
            f"{folder} is stored in {quantisation[0]} bits already: "
            "leave drafter_bits out, or take the 16-bit checkpoint"
        )


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


def fill(
    module: Module,
    weights: Weights,
    folder: Path,
    quantisation: Quantisation,
    dtype: mx.Dtype,
    bits: int | None,
    group_size: int,
) -> None:
    """Put `weights`, named as in the module, into it: cast to `dtype` and, with `bits`, matrices
    quantised; all evaluated. Raises CheckpointError where names or shapes do not fit."""
    if quantisation:
        stored_bits, stored_group = quantisation
        quantize(
            module,
            stored_group,
            stored_bits,
            class_predicate=lambda name, _: f"{name}.scales" in weights,
        )
    try:
        module.load_weights(list(_cast(weights, dtype).items()))
    except ValueError as error:
        raise CheckpointError(f"{folder}: {one_line(error)}") from error
    if bits:
        quantize(
            module,
            group_size,
            bits,
            class_predicate=lambda _, part: (
                isinstance(part, Linear)
                and part.weight.shape[0] > 1
                and part.weight.shape[-1] % group_size == 0
            ),
        )
    module.eval()
    skinny_matmul.rearrange(module)
    evaluate(module)


def _cast(weights: Weights, dtype: mx.Dtype) -> Weights:
    """All floats in one precision: a mixed product would cast its matrix at every call."""
    return {
        name: value.astype(dtype) if mx.issubdtype(value.dtype, mx.floating) else value
        for name, value in weights.items()
    }


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
