"""What each layer keeps per token: full, sliding or recurrent, and how many bytes.

Widths come from the tensors (a config may lie about heads), windows from the config, by
the rules of mlx-lm 0.32's model files. A type that is not listed here is decided when it
is loaded, and `layers()` says so by returning None.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from llm_specdec.checkpoint.files import Tensor
from llm_specdec.errors import CheckpointError

STEP = 256  # mlx-lm grows a KV cache in steps of so many tokens

_LAYER = re.compile(r"(?:^|\.)(?:layers|mtp_layers|h|blocks)\.(\d{1,9})\.(.+)$")
_FUSED = re.compile(r"(?:^|\.)(qkv_proj|qkv|query_key_value|c_attn|Wqkv|wqkv)\.weight$")
_RECURRENT = re.compile(r"(^|\.)(linear_attn|mamba|mixer|conv|rg_lru|ssm|temporal_block)\.")

# Types whose layers keep something else than one cache of keys and values each.
OTHERWISE = {
    "deepseek_v41", "iquestloopcoder", "llama4", "longcat_flash", "longcat_flash_ngram",
    "minimax_m3_vl", "nanbeige", "afm7",
}  # fmt: skip
_WHOLE_HEADS = {"deepseek_v2", "minicpm3"}  # latent attention, yet whole heads are cached


@dataclass(frozen=True)
class CacheShape:
    """One layer's cache. Bytes are for one sequence in the checkpoint's own precision.

    kind: full | sliding | recurrent | mixed (attention and recurrence) | shared | none.
    """

    kind: str
    width: int = 0  # elements per token, keys and values together
    window: int | None = None  # tokens
    fixed_bytes: int = 0  # recurrent state, whatever the length

    def elements(self, tokens: int) -> int:
        """Elements allocated for that many tokens."""
        room = stepped(tokens)
        return self.width * (room if self.window is None else min(room, self.window))


def stepped(tokens: int) -> int:
    """Tokens that a cache of so many has room for, in mlx-lm's steps."""
    return -(-tokens // STEP) * STEP


def layers(
    model_type: str,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    element_bytes: int,
) -> tuple[CacheShape, ...] | None:
    """The caches of the trunk's layers; None for a type that only loading can tell.

    config: the text model's; tensors: the trunk's, without head and vision tower.
    """
    parts = _by_layer(tensors)
    if not parts or model_type in OTHERWISE:
        return None
    if model_type == "rwkv7":  # its k_proj feeds the recurrence
        return (CacheShape("recurrent", fixed_bytes=_rwkv_bytes(config, element_bytes)),) * (
            max(parts) + 1
        )
    count = max(parts) + 1
    windows = _windows(model_type, config, count)
    owned = count - _shared(config)
    found = []
    for index in range(count):
        part = parts.get(index, {})
        width = _width(model_type, config, part)
        state = _state_bytes(config, part, element_bytes) if _is_recurrent(part) else 0
        if index >= owned:
            found.append(CacheShape("shared"))
        elif width and _is_recurrent(part):
            found.append(CacheShape("mixed", width, windows[index], state))
        elif width:
            kind = "full" if windows[index] is None else "sliding"
            found.append(CacheShape(kind, width, windows[index]))
        elif _is_recurrent(part):
            found.append(CacheShape("recurrent", fixed_bytes=state))
        else:
            found.append(CacheShape("none"))
    return tuple(found) if any(layer.kind != "none" for layer in found) else None


def layers_of(tensors: Iterable[str]) -> set[int]:
    """The numbers of the layers that tensors of these names belong to."""
    return {int(match[1]) for name in tensors if (match := _LAYER.search(name))}


def _by_layer(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    parts: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if match := _LAYER.search(name):
            parts.setdefault(int(match[1]), {})[match[2]] = tensor
    return parts


def _ending(part: dict[str, Tensor], end: str) -> Tensor | None:
    return next((tensor for rest, tensor in part.items() if rest.endswith(end)), None)


def _width(model_type: str, config: dict[str, Any], part: dict[str, Tensor]) -> int:
    if latent := _ending(part, "kv_a_proj_with_mqa.weight"):
        index = _ending(part, "indexer.wk.weight")
        extra = 2 * index.rows if index else 0  # the sparse index's own keys, stored twice
        if model_type not in _WHOLE_HEADS:
            return latent.rows + extra
        head = sum(_int(config, key) for key in ("qk_nope_head_dim", "qk_rope_head_dim"))
        return _int(config, "num_attention_heads") * (head + _int(config, "v_head_dim"))
    if keys := _ending(part, "k_proj.weight"):
        values = _ending(part, "v_proj.weight") or keys  # gemma 4 may use keys as values
        return keys.rows + values.rows
    if any(_FUSED.search(rest) for rest in part):
        heads = _int(config, "num_attention_heads", "n_head")
        dim = _int(config, "head_dim") or _int(config, "hidden_size", "n_embd") // max(heads, 1)
        return 2 * dim * (_int(config, "num_key_value_heads") or heads)
    return 0


def _int(config: dict[str, Any], *keys: str) -> int:
    return next((n for key in keys if isinstance(n := config.get(key), int)), 0)


def _is_recurrent(part: dict[str, Tensor]) -> bool:
    marks = ("conv1d.weight", "conv.conv.weight", "A_log")
    return any(rest.endswith(marks) and _RECURRENT.search(rest) for rest in part)


def _state_bytes(config: dict[str, Any], part: dict[str, Tensor], element_bytes: int) -> int:
    """Convolution window in the model's precision, recurrence in float32 (delta rule)."""
    conv = _ending(part, "conv1d.weight") or _ending(part, "conv.conv.weight")
    kernel = max(conv.shape[1:], default=1) if conv else 1
    window = conv.rows * (kernel - 1) * element_bytes if conv else 0
    heads, decay = _ending(part, "A_log"), _ending(part, "linear_attn.norm.weight")
    if heads and decay:
        delta = heads.elements * decay.elements * _int(config, "linear_key_head_dim")
        return window + 4 * delta
    size = _int(config, "mamba_num_heads", "mamba_n_heads", "num_heads")
    dim = _int(config, "mamba_head_dim", "mamba_d_head", "head_dim")
    state = _int(config, "ssm_state_size", "mamba_d_state", "state_size")
    return window + size * dim * state * element_bytes if heads else window


def _rwkv_bytes(config: dict[str, Any], element_bytes: int) -> int:
    """Two shifted tokens in the model's precision, a matrix per head in float32."""
    hidden = _int(config, "hidden_size")
    return 2 * hidden * element_bytes + 4 * hidden * _int(config, "head_dim")


def _shared(config: dict[str, Any]) -> int:
    """Layers at the end that read an earlier layer's cache (gemma 3n and 4)."""
    return _int(config, "num_kv_shared_layers")


# ---- which layers slide, by model type (mlx-lm's own rules) ----

Windows = list[int | None]


def _by_types(config: dict[str, Any], count: int, default: Callable[[int], str]) -> Windows:
    types = config.get("layer_types") or [default(index) for index in range(count)]
    window = _int(config, "sliding_window") or None
    return [window if kind == "sliding_attention" else None for kind in types]


def _every(config: dict[str, Any], count: int, pattern: int, key: str) -> Windows:
    pattern = _int(config, "sliding_window_pattern") or pattern
    window = _int(config, key) or None
    return [None if index % pattern == pattern - 1 else window for index in range(count)]


def _letters(config: dict[str, Any], count: int) -> Windows:
    pattern = config.get("sliding_window_pattern") or "G"
    if not isinstance(pattern, str):
        raise CheckpointError(f"sliding_window_pattern is {pattern}, a text like LLLG is needed")
    window = _int(config, "sliding_window") or None
    return [window if pattern[index % len(pattern)] == "L" else None for index in range(count)]


def _alternating(first: str, second: str) -> Callable[[int], str]:
    return lambda index: second if index % 2 else first


def _full(index: int) -> str:
    return "full_attention"


def _fourth_full(index: int) -> str:
    return "full_attention" if (index + 1) % 4 == 0 else "sliding_attention"


_SLIDING: dict[str, Callable[[dict[str, Any], int], Windows]] = {
    **dict.fromkeys(
        (
            "llama", "mistral", "ministral3", "mistral3", "afmoe", "exaone_moe", "laguna",
            "mellum", "muse_glimmer", "muse_spark", "gear", "gemma3n", "gemma3n_text",
        ),
        lambda config, count: _by_types(config, count, _full),
    ),
    "olmo3": lambda config, count: _by_types(config, count, _fourth_full),
    **dict.fromkeys(
        ("gpt_oss", "step3p5"),
        lambda config, count: _by_types(
            config, count, _alternating("sliding_attention", "full_attention")
        ),
    ),
    **dict.fromkeys(
        ("gemma4", "gemma4_text", "gemma4_unified"),
        lambda config, count: _by_types(
            config, count, lambda index: _full(index) if index % 5 == 4 else "sliding_attention"
        ),
    ),
    **dict.fromkeys(
        ("gemma3", "gemma3_text"),
        lambda config, count: _every({"sliding_window": 512, **config}, count, 6, "sliding_window"),
    ),
    "cohere2": lambda config, count: _every(config, count, 4, "sliding_window"),
    "plamo3": lambda config, count: _every(config, count, 8, "window_size"),
    "exaone4": _letters,
    "mimo_v2_flash": lambda config, count: [
        _int(config, "sliding_window_size") if slides else None
        for slides in config.get("hybrid_layer_pattern") or [0] * count
    ],
    "recurrent_gemma": lambda config, count: [_int(config, "attention_window_size")] * count,
}  # fmt: skip


def _windows(model_type: str, config: dict[str, Any], count: int) -> Windows:
    rule = _SLIDING.get(model_type)
    windows = rule(config, count) if rule else []
    return (windows + [None] * count)[:count]
