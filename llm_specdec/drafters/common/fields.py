"""The fields of a drafter's config.json: each one is read, known to change nothing, or refused.

Plain Python: no tensor library is imported here.
"""

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from llm_specdec.errors import CheckpointError

MOST_LAYERS = 1000
_ROPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope", "proportional")


class Fields:
    """Reads one config, naming the file and the field in every error.

    harmless: fields that say nothing about the computation. neutral: fields with the values
    that change nothing. What else is set and never read is refused by `refuse_unread`.
    """

    harmless: re.Pattern[str] = re.compile(r"_.*")
    neutral: Mapping[str, tuple[Any, ...]] = {}

    def __init__(self, where: str, fields: Mapping[str, Any]) -> None:
        self.where, self.fields = where, fields
        self.unread = set(fields)

    def get(self, key: str) -> Any:
        """A field; None where it is missing."""
        self.unread.discard(key)
        return self.fields.get(key)

    def whole(self, key: str, default: int | None = None, minimum: int = 1) -> int:
        value = self.get(key)
        value = default if value is None else value
        if value is None:
            self.fail(f"{key} is missing")
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            self.fail(f"{key} is {value!r}, a whole number of at least {minimum} is needed")
        return value

    def number(self, key: str, default: float) -> float:
        value = self.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(f"{key} is {value!r}, a number is needed")
        return float(value)

    def layers(self) -> int:
        layers = self.whole("num_hidden_layers")
        if layers > MOST_LAYERS:
            self.fail(f"num_hidden_layers is {layers}, more than {MOST_LAYERS} cannot be meant")
        return layers

    def heads(self, hidden: int) -> tuple[int, int, int]:
        """Heads, key/value heads, and elements of a head."""
        heads = self.whole("num_attention_heads")
        kv_heads = self.whole("num_key_value_heads", heads)
        if heads % kv_heads:
            self.fail(f"{heads} heads cannot share {kv_heads} key/value heads")
        return heads, kv_heads, self.whole("head_dim", hidden // heads)

    def windows(self, layers: int) -> tuple[int | None, ...]:
        """By layer: the sliding window in tokens, None for full attention."""
        types, _ = self.get("layer_types"), self.get("sliding_window")
        if types is None and self.get("use_sliding_window"):
            self.fail("use_sliding_window is set, but layer_types does not say for which layers")
        types = types or ["full_attention"] * layers
        if len(types) != layers:
            self.fail(f"layer_types names {len(types)} layers, num_hidden_layers is {layers}")
        unknown = sorted(set(types) - {"full_attention", "sliding_attention"})
        if unknown:
            self.fail(f"layer_types has {unknown[0]!r}, which nothing here can run")
        if "sliding_attention" not in types:
            return (None,) * layers
        window = self.whole("sliding_window", minimum=2)
        return tuple(window if kind == "sliding_attention" else None for kind in types)

    def rope(self) -> dict[str, Any] | None:
        newer, older = self.get("rope_parameters"), self.get("rope_scaling")
        rope = newer or older
        if rope is None:
            return None
        kind = rope.get("type") or rope.get("rope_type", "default")
        if kind not in _ROPES:
            self.fail(f"rope type {kind!r} is unknown")
        if kind != "proportional" and rope.get("partial_rotary_factor", 1) != 1:
            self.fail("partial_rotary_factor is not 1, which nothing here can run")
        return dict(rope)

    def quantisation(self) -> tuple[int, int] | None:
        """(bits, group size) of the stored matrices."""
        stored = self.get("quantization")
        if not stored:
            if self.get("quantization_config"):
                self.fail("quantised in a format other than MLX's: take the 16-bit checkpoint")
            return None
        if any(isinstance(value, dict) for value in stored.values()):
            self.fail("its matrices have different precisions: take the 16-bit checkpoint")
        if stored.get("mode", "affine") != "affine":
            self.fail(
                f"quantisation mode {stored['mode']!r} is unknown: take the 16-bit checkpoint"
            )
        return int(stored["bits"]), int(stored["group_size"])

    def refuse_unread(self) -> None:
        for key in sorted(self.unread):
            value = self.fields[key]
            known = self.harmless.fullmatch(key) or value in self.neutral.get(key, ())
            if value and not known:
                self.fail(f"{key} = {value!r} may change the computation, and is not known here")

    def fail(self, what: str) -> NoReturn:
        raise CheckpointError(f"{self.where}: {what}")
