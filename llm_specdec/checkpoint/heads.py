"""Which prediction head a checkpoint holds, told by tensor names alone.

Layouts: `qwen` (`mtp.*`: Qwen3-Next, 3.5 and later), `deepseek` (layers appended after
the last: DeepSeek-V3, GLM-4.x), `mimo` (`model.mtp_layers.*`). A config that promises a
head proves nothing, and neither does one that is silent.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llm_specdec.checkpoint.files import Tensor

_WRAP = r"(?:model\.)?(?:language_model\.)?(?:model\.)?"
_QWEN = re.compile(rf"^{_WRAP}mtp\.(?P<rest>.+)$")
_MIMO = re.compile(rf"^{_WRAP}mtp_layers\.(?P<layer>\d+)\.(?P<rest>.+)$")
_LAYER = re.compile(rf"^{_WRAP}layers\.(?P<layer>\d+)\.(?P<rest>.+)$")

_NEEDED = {
    "qwen": (
        "fc.weight",
        "pre_fc_norm_hidden.weight",
        "pre_fc_norm_embedding.weight",
        "norm.weight",
        "layers.0.input_layernorm.weight",
        "layers.0.self_attn.q_proj.weight",
    ),
    "deepseek": ("enorm.weight", "hnorm.weight", "eh_proj.weight", "input_layernorm.weight"),
    "mimo": ("token_layernorm.weight", "hidden_layernorm.weight", "input_proj.weight"),
}

# The norm whose length is the target's hidden size.
_HIDDEN_NORM = ("pre_fc_norm_hidden.weight", ".hnorm.weight", ".hidden_layernorm.weight")

_PROMISES = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_modules")


@dataclass(frozen=True)
class Head:
    """A prediction head. `missing` lists what its layout needs and the files lack."""

    layout: str  # qwen | deepseek | mimo | unknown
    depth: int  # layers stored; a qwen head of one layer also drafts deeper by feedback
    tensors: tuple[str, ...]
    nbytes: int
    where: tuple[str, ...]  # file names, relative to the folder
    missing: tuple[str, ...] = ()
    hidden_size: int | None = None  # of the target it was made for

    @property
    def usable(self) -> bool:
        return self.layout != "unknown" and not self.missing


def promised(config: dict[str, Any]) -> int:
    """How many head layers the config speaks of, 0 for none."""
    return max((n for key in _PROMISES if isinstance(n := config.get(key), int)), default=0)


def find(tensors: dict[str, Tensor]) -> Head | None:
    """The prediction head among these tensors, or None."""
    qwen = {match["rest"]: name for name in tensors if (match := _QWEN.match(name))}
    if qwen:
        layers = {rest.split(".")[1] for rest in qwen if rest.startswith("layers.")}
        known = "fc.weight" in qwen or "pre_fc_norm_hidden.weight" in qwen
        return _head(tensors, "qwen" if known else "unknown", len(layers), qwen.values(), qwen)
    mimo = {name: match for name in tensors if (match := _MIMO.match(name))}
    if mimo:
        layers = {match["layer"] for match in mimo.values()}
        return _head(tensors, "mimo", len(layers), mimo, _first_layer(mimo))
    appended = {match["layer"] for name in tensors if (match := _is_appended(name))}
    if appended:
        inside = {
            name: match
            for name in tensors
            if (match := _LAYER.match(name)) and match["layer"] in appended
        }
        return _head(tensors, "deepseek", len(appended), inside, _first_layer(inside))
    loose = [name for name in tensors if ".mtp" in name or name.startswith("mtp")]
    return _head(tensors, "unknown", 0, loose, ()) if loose else None


def _is_appended(name: str) -> re.Match[str] | None:
    match = _LAYER.match(name)
    return match if match and match["rest"].startswith("eh_proj.") else None


def _first_layer(matches: dict[str, re.Match[str]]) -> set[str]:
    first = min(int(match["layer"]) for match in matches.values())
    return {match["rest"] for match in matches.values() if int(match["layer"]) == first}


def _head(
    tensors: dict[str, Tensor],
    layout: str,
    depth: int,
    names: Iterable[str],
    rests: Iterable[str],
) -> Head:
    held = tuple(sorted(names))
    here = set(rests)
    return Head(
        layout,
        depth,
        held,
        sum(tensors[name].nbytes for name in held),
        tuple(sorted({_relative(tensors[name]) for name in held})),
        tuple(need for need in _NEEDED.get(layout, ()) if need not in here),
        next((tensors[name].shape[0] for name in held if name.endswith(_HIDDEN_NORM)), None),
    )


def _relative(tensor: Tensor) -> str:
    inside = tensor.file.parent.name == "mtp" and tensor.file.name == "weights.safetensors"
    return f"mtp/{tensor.file.name}" if inside else tensor.file.name
