"""What a DFlash drafter asks of its target, from its config and tensor names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_specdec.checkpoint import weights
from llm_specdec.checkpoint.files import Tensor, check_config
from llm_specdec.errors import CheckpointError


@dataclass(frozen=True)
class DFlash:
    """What a DFlash drafter asks of its target; `fused` is the width its `fc` takes."""

    version: int  # 1 or 2 (2 has a candidate selector)
    block_size: int
    target_layer_ids: tuple[int, ...]
    mask_token_id: int
    num_target_layers: int | None
    fused: int | None  # = target hidden size × number of target layer ids


def read_dflash(path: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> DFlash:
    """From the config at `path` and the names and shapes of the tensors. Raises CheckpointError
    where the config does not say which layers it reads."""
    settings = config.get("dflash_config") or _of_speculators(config)
    if settings is None:
        raise CheckpointError(f"{path}: dflash_config is missing, it names the target's layers")
    check_config(path, settings)
    ids, mask = settings.get("target_layer_ids"), settings.get("mask_token_id")
    if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids) or mask is None:
        raise CheckpointError(f"{path}: dflash_config needs target_layer_ids and mask_token_id")
    block = settings.get("block_size") or config.get("block_size") or 16
    version = 2 if any(name.startswith("candidate_selector.") for name in tensors) else 1
    targets = config.get("num_target_layers")
    return DFlash(version, block, tuple(ids), mask, targets, _fused(config, tensors))


def _of_speculators(config: dict[str, Any]) -> dict[str, Any] | None:
    """vLLM's `speculators` count layers from the embedding's output: id i is layer i - 1's."""
    ids = config.get("aux_hidden_state_layer_ids")
    if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
        return None
    return {**config, "target_layer_ids": [i - 1 for i in ids]}


def _fused(config: dict[str, Any], tensors: dict[str, Tensor]) -> int | None:
    weight, scales = tensors["fc.weight"], tensors.get("fc.scales")
    if scales is None:
        return weight.shape[-1] if weight.shape else None
    found = weights.quantisation(config, {"fc.weight": weight, "fc.scales": scales})
    return scales.shape[-1] * found.group_size if found else None
