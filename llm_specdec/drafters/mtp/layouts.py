"""How publishers name and wire a prediction head. Facts, no code that runs the head.

Sources: the tensor names of the published checkpoints; the order of the two halves and
the norms as vLLM's model files for qwen3_next, deepseek, glm4_moe and mimo have them.
"""

import re
from dataclasses import dataclass

_APPENDED = {
    "enorm": "embedding_norm",
    "hnorm": "hidden_norm",
    "eh_proj": "projection",
    "shared_head.norm": "norm",
}


@dataclass(frozen=True)
class Layout:
    """One publisher's names. `place` finds (layer, rest) in a tensor's name, `parts` maps the
    beginning of rest to a module of `Head`; what is left belongs to the decoder layer."""

    place: re.Pattern[str]
    parts: dict[str, str]
    layer: str = ""  # what the names of the decoder layer begin with
    unused: tuple[str, ...] = ()  # copies of the target's own tensors
    hidden_first: bool = False  # order of the halves that go into the projection
    may_store_gain_minus_one: bool = False
    reads: str = "final_norm"  # hidden states it takes, unless calibration says otherwise


LAYOUTS = {
    "qwen": Layout(
        place=re.compile(r"(?:^|\.)mtp\.()(.+)$"),
        parts={
            "pre_fc_norm_embedding": "embedding_norm",
            "pre_fc_norm_hidden": "hidden_norm",
            "fc": "projection",
            "norm": "norm",
        },
        layer="layers.0.",
        unused=("embed_tokens", "layers"),
        may_store_gain_minus_one=True,
    ),
    "deepseek": Layout(
        place=re.compile(r"(?:^|\.)layers\.(\d+)\.(.+)$"),
        parts=_APPENDED,
        unused=("embed_tokens", "shared_head.head"),
    ),
    "mimo": Layout(
        place=re.compile(r"(?:^|\.)mtp_layers\.(\d+)\.(.+)$"),
        parts={
            "token_layernorm": "embedding_norm",
            "hidden_layernorm": "hidden_norm",
            "input_proj": "projection",
            "final_layernorm": "norm",
        },
        hidden_first=True,
    ),
}


def rename(layout: Layout, names: tuple[str, ...]) -> dict[str, str]:
    """Stored name → name in `Head`, of the head's first layer (deeper drafts feed it back).

    The decoder layer's tensors come out as `layer.…`, copies of the target's own not at all.
    """
    placed = {name: match for name in names if (match := layout.place.search(name))}
    first = min((match[1] for match in placed.values()), key=lambda i: int(i or 0), default="")
    found = {}
    for name, match in placed.items():
        if match[1] == first and (inside := _inside(layout, match[2])):
            found[name] = inside
    return found


def _inside(layout: Layout, rest: str) -> str | None:
    module, _, leaf = rest.rpartition(".")
    if module in layout.parts:
        return f"{layout.parts[module]}.{leaf}"
    if layout.layer and rest.startswith(layout.layer):
        return "layer." + rest.removeprefix(layout.layer)
    if rest.startswith(tuple(f"{name}." for name in layout.unused)) or "rotary_emb." in rest:
        return None
    return "layer." + rest
