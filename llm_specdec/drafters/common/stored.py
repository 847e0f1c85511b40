"""A drafter's tensors as its files hold them, and their way into memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten

from llm_specdec.engine.hardware import skinny_matmul
from llm_specdec.engine.mlx_lm_parts import utils
from llm_specdec.engine.taps import evaluate
from llm_specdec.errors import CheckpointError

Weights = dict[str, mx.array]
Packs = Callable[[str, Module], bool]  # name and module → whether `drafter_bits` quantises it


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
                f"the drafter's output matrix has {rows} rows of a vocabulary of {vocab_size}, and "
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


def is_matrix(name: str, part: Module) -> bool:
    return isinstance(part, Linear) and part.weight.shape[0] > 1


def fill(
    module: Module,
    weights: Weights,
    folder: Path,
    dtype: mx.Dtype,
    bits: int | None,
    group_size: int,
    packs: Packs = is_matrix,
) -> None:
    """Put `weights`, named as in the module, into it: cast to `dtype` and, with `bits`, what
    `packs` chooses quantised. What is stored quantised stays as it is. Lazy: `ready` reads.

    Raises: CheckpointError where names or shapes do not fit, or `bits` come on top of others.
    """
    if bits and any(name.endswith(".scales") for name in weights):
        raise CheckpointError(
            f"{folder} is stored quantised already: leave drafter_bits out, or take the 16-bit "
            "checkpoint"
        )

    def stored_form(name: str, part: Module) -> bool | dict[str, Any]:
        if f"{name}.scales" not in weights:
            return False
        form: dict[str, Any] = utils.infer_quant_config(name, part, weights)
        return form

    try:
        quantize(module, class_predicate=stored_form)
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{folder}: {one_line(error)}") from error
    _check_names(module, weights, folder)
    module.load_weights(list(_cast(weights, dtype).items()))
    if bits:
        quantize(
            module,
            group_size,
            bits,
            class_predicate=lambda name, part: (
                packs(name, part) and part.weight.shape[-1] % group_size == 0
            ),
        )


def ready(module: Module) -> None:
    """Read the weights, and store them as a run is fastest with them."""
    module.eval()
    skinny_matmul.rearrange(module)
    evaluate(module)


def _check_names(module: Module, weights: Weights, folder: Path) -> None:
    """Every tensor that the architecture has, and no other one."""
    wanted: Weights = dict(tree_flatten(module.parameters()))
    why = "damaged, or of an architecture unknown here: fetch it again, or take another drafter"
    for names, what in ((wanted.keys() - weights.keys(), "lacks"),
                        (weights.keys() - wanted.keys(), "holds")):  # fmt: skip
        if names:
            first = min(names)
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise CheckpointError(f"{folder} {what} {first.removeprefix('model.')}{more}: {why}")
    for name, value in wanted.items():
        if (shape := weights[name].shape) != value.shape:
            raise CheckpointError(
                f"{folder}: {name.removeprefix('model.')} is {_sizes(shape)}, and "
                f"{_sizes(value.shape)} by the configuration: {why}"
            )


def _sizes(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one value"


def _cast(weights: Weights, dtype: mx.Dtype) -> Weights:
    """All floats in one precision: a mixed product would cast its matrix at every call."""
    return {
        name: value.astype(dtype) if mx.issubdtype(value.dtype, mx.floating) else value
        for name, value in weights.items()
    }


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
