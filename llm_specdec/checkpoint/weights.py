"""Precision, parameters and bytes of a checkpoint's tensors."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_specdec.checkpoint.files import Tensor

_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}

# mlx-lm loads the language model alone; these it leaves on disk.
_NOT_TEXT = (
    "vision_tower.", "vision_model.", "visual.", "model.visual.", "model.vision_tower.",
    "multi_modal_projector.", "model.multi_modal_projector.", "audio_tower.", "model.audio_tower.",
    "patch_merge_mlp.", "embed_vision.", "model.embed_vision.", "embed_audio.",
    "model.embed_audio.",
)  # fmt: skip


@dataclass(frozen=True)
class Quantisation:
    """How the matrices are stored. `mixed` counts matrices by (bits, group size).

    method: affine and its kin as MLX names them, or another tool's (awq, gptq, fp8 …).
    """

    bits: int
    group_size: int
    method: str
    mixed: dict[tuple[int, int], int]
    config_bits: int | None = None  # what the config says, where the tensors say otherwise


def is_text(name: str) -> bool:
    return not name.startswith(_NOT_TEXT)


def dtype(tensors: dict[str, Tensor], config: dict[str, Any]) -> str:
    """The precision the model computes in: of most floating tensors by number of elements."""
    counts: Counter[str] = Counter()
    for tensor in tensors.values():
        if tensor.dtype in _FLOATS:
            counts[_FLOATS[tensor.dtype]] += tensor.elements
    declared = str(config.get("dtype") or config.get("torch_dtype") or "float16")
    return counts.most_common(1)[0][0] if counts else declared


def element_bytes(name: str) -> int:
    return _BYTES.get(name, 2)


def quantisation(config: dict[str, Any], tensors: dict[str, Tensor]) -> Quantisation | None:
    """What the tensors hold; the config only supplies the group size and the method."""
    settings = _settings(config)
    scaled = {name[: -len(".scales")] for name in tensors if name.endswith(".scales")}
    counts = Counter(
        packing
        for module in sorted(scaled)
        if (packing := _packing(module, tensors, settings)) is not None
    )
    if counts:
        bits, group = counts.most_common(1)[0][0]
        said = settings.get("bits")
        odd = said if isinstance(said, int) and (said, group) not in counts else None
        method = str(settings.get("mode") or "affine")
        return Quantisation(bits, group, method, dict(counts), odd)
    return _foreign(settings) if any(_is_foreign(name) for name in tensors) else None


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    text = config.get("text_config")
    places = (config, text if isinstance(text, dict) else {})
    for key in ("quantization", "quantization_config"):
        for place in places:
            if isinstance(found := place.get(key), dict):
                return found
    return {}


def _packing(
    module: str, tensors: Mapping[str, Tensor], settings: dict[str, Any]
) -> tuple[int, int] | None:
    """(bits, group size) of one packed matrix: 32 × words ÷ (scales × group size)."""
    weight, scales = tensors.get(f"{module}.weight"), tensors.get(f"{module}.scales")
    if (
        weight is None
        or scales is None
        or weight.dtype != "U32"
        or not weight.shape
        or not scales.shape
    ):
        return None
    own = settings.get(module)
    size = own.get("group_size") if isinstance(own, dict) else settings.get("group_size")
    group = size if isinstance(size, int) and size > 0 else 64
    return 32 * weight.columns // max(scales.columns * group, 1), group


def columns(name: str, tensors: Mapping[str, Tensor], config: dict[str, Any]) -> int:
    """Columns of a matrix as the model has them, whatever they are packed in."""
    last = tensors[name].columns
    packing = _packing(name.removesuffix(".weight"), tensors, _settings(config))
    return 32 * last // max(packing[0], 1) if packing else last


def _is_foreign(name: str) -> bool:
    return name.endswith((".qweight", ".weight_scale_inv", ".weight_packed", ".weight_scale"))


def _foreign(settings: dict[str, Any]) -> Quantisation:
    bits, group = settings.get("bits"), settings.get("group_size")
    method = str(settings.get("quant_method") or "unknown")
    default = 8 if "fp8" in method else 4
    bits = bits if isinstance(bits, int) else default
    return Quantisation(bits, group if isinstance(group, int) else 0, method, {})


def parameters(config: dict[str, Any], tensors: dict[str, Tensor]) -> int:
    """Weights as the model has them, whatever they are packed in."""
    settings = _settings(config)
    total = 0
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        if f"{module}.scales" in tensors and kind in ("scales", "biases"):
            continue
        packed = kind == "weight" and f"{module}.scales" in tensors
        packing = _packing(module, tensors, settings) if packed else None
        if kind in ("qzeros", "scales", "g_idx") or (_is_foreign(name) and kind != "qweight"):
            continue
        if packing is not None:
            total += tensor.elements * 32 // max(packing[0], 1)
        elif kind == "qweight":
            total += tensor.elements * 32 // max(_foreign(settings).bits, 1)
        else:
            total += tensor.elements
    return total


def pass_bytes(config: dict[str, Any], tensors: dict[str, Tensor], tied: bool) -> int:
    """Bytes that decoding one token reads: all weights, experts in the share that is used.

    An embedding that is not also the output head is a lookup of one row: not counted.
    """
    experts = next((n for k in _EXPERTS if isinstance(n := config.get(k), int) and n), 0)
    used = next((n for k in _USED if isinstance(n := config.get(k), int) and n), experts)
    share = min(used / experts, 1.0) if experts else 1.0
    total = 0.0
    for name, tensor in tensors.items():
        if is_lookup(name) and not (tied and "codebook" not in name):
            continue
        routed = ("experts." in name or "switch_mlp." in name) and "shared" not in name
        total += tensor.nbytes * (share if routed else 1.0)
    return round(total)


_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
_USED = ("num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts")


def is_lookup(name: str) -> bool:
    """Tables of which one row is read a token."""
    return any(part in name for part in ("embed_tokens", "wte", "word_embeddings", "_codebook"))


def output_bytes(tensors: dict[str, Tensor], tied: bool) -> int:
    """Bytes of the output head, which drafters that bind the target's head read too."""
    marks = ("embed_tokens.", "wte.", "word_embeddings.") if tied else ("lm_head.", "output.")
    return sum(t.nbytes for name, t in tensors.items() if any(mark in name for mark in marks))
