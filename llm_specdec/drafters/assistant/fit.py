"""Whether an assistant suits a target: by what their files say, no weights.

It attends to the target's keys, so these must be as wide as its queries and be rotated alike.
"""

import re
from collections.abc import Mapping
from typing import Any

from llm_specdec.checkpoint import Anatomy
from llm_specdec.checkpoint.files import Tensor
from llm_specdec.drafters.assistant.config import FULL, SLIDING, AssistantConfig

_FAMILY = ("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text")
_KEY_NORM = re.compile(r"(?:^|\.)layers\.(\d+)\.self_attn\.k_norm\.weight$")
# mlx-lm's, for a config without the field.
_ROPES: Mapping[str, Mapping[str, Any]] = {
    FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
}


def mismatches(target: Anatomy, config: AssistantConfig) -> list[str]:
    """What keeps them from working together, with both figures; [] if nothing."""
    if target.model_type not in _FAMILY:
        return [f"model type: a Gemma 4 assistant drafts for Gemma 4, not for {target.model_type}"]
    found = []
    if config.target_width != target.hidden_size:
        found.append(
            f"hidden size: the drafter is made for {config.target_width}, "
            f"the target has {target.hidden_size}"
        )
    if config.vocab_size != target.vocab_size:
        found.append(
            f"vocabulary: the drafter is made for {config.vocab_size:,} entries, "
            f"the target has {target.vocab_size:,}"
        )
    heads = _key_dims(target)
    for kind, dim in config.head_dims.items():
        words = kind.replace("_", " ")
        if kind not in heads:
            there = ", ".join(sorted(heads)) or "none"
            found.append(f"layer types: the drafter reads {kind} layers, the target has {there}")
        elif heads[kind] != dim:
            found.append(f"{words}: the drafter's heads are {dim} wide, the target's {heads[kind]}")
        else:
            found += _rotation(target, kind, config.ropes[kind])
    window = target.contents.text.get("sliding_window", 512)
    if SLIDING in config.head_dims and config.window > window:
        found.append(
            f"sliding window: the drafter sees {config.window:,} rows, the target {window:,}"
        )
    return found


def _key_dims(target: Anatomy) -> dict[str, int]:
    """By type of layer: how wide the keys of one head are, where layers compute their own."""
    types = target.contents.text.get("layer_types") or []
    norms: dict[int, Tensor] = {
        int(match[1]): tensor
        for name, tensor in target.contents.tensors.items()
        if (match := _KEY_NORM.search(name))
    }
    own = len(types) - (target.contents.text.get("num_kv_shared_layers") or 0)
    return {types[i]: norms[i].rows for i in range(own) if i in norms}


def _rotation(target: Anatomy, kind: str, rope: Mapping[str, Any]) -> list[str]:
    theirs = (target.contents.text.get("rope_parameters") or _ROPES).get(kind, {})
    one, two = _turned(rope), _turned(theirs)
    return [f"{kind} rope: the drafter's is {one}, the target's {two}"] if one != two else []


def _turned(rope: Mapping[str, Any]) -> str:
    kind = rope.get("rope_type", "default")
    share = f", {rope.get('partial_rotary_factor', 1)} of it" if kind == "proportional" else ""
    return f"{kind} with theta {float(rope.get('rope_theta', 10000)):g}{share}"
