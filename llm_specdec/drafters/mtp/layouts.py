"""How publishers name and wire a prediction head. Facts, no code that runs the head.

A head is told by tensor names alone: a config that promises one proves nothing, and neither
does one that is silent. Sources: the tensor names of the published checkpoints (`qwen`:
Qwen3-Next, 3.5 and later; `deepseek`, layers appended after the last: DeepSeek-V3, GLM-4.x;
`mimo`); the order of the two halves and the norms as vLLM's model files for qwen3_next,
deepseek, glm4_moe and mimo have them. A repository of a head alone may leave out the prefix
(mlx_vlm's splitter does).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_specdec.checkpoint import CheckpointFiles
    from llm_specdec.checkpoint.files import Tensor

UNKNOWN = "unknown"  # the layout of a head whose names are none of those below

_WRAP = r"(?:model\.)?(?:language_model\.)?(?:model\.)?"
_APPENDED = {
    "enorm": "embedding_norm",
    "hnorm": "hidden_norm",
    "eh_proj": "projection",
    "shared_head.norm": "norm",
}

# The norm whose length is the target's hidden size.
_HIDDEN_NORM = ("pre_fc_norm_hidden.weight", ".hnorm.weight", ".hidden_layernorm.weight")

# A tensor that only a head whose names lack their prefix has → that prefix.
_BARE = {"pre_fc_norm_hidden.weight": "mtp."}

# Keys that ask for what is not done here → what they ask for.
_ASKED = {
    "mtp_use_dedicated_embeddings": "embeddings of its own",
    "mtp_assistant_config": "an assistant that reads the target's keys and values",
}

_PROMISES = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_modules")


@dataclass(frozen=True)
class Layout:
    """One publisher's names. `place` finds layer and rest in a tensor's name, `parts` maps the
    beginning of rest to a module of `PredictionHead`; what is left belongs to the decoder layer."""

    place: re.Pattern[str]
    needed: tuple[str, ...]  # rests of the first layer
    parts: dict[str, str]
    layer: str = ""  # what the names of the decoder layer begin with
    unused: tuple[str, ...] = ()  # copies of the target's own tensors
    hidden_first: bool = False  # order of the halves that go into the projection
    may_store_gain_minus_one: bool = False
    reads: str = "final_norm"  # hidden states it takes, unless calibration says otherwise


LAYOUTS = {
    "qwen": Layout(
        place=re.compile(rf"^{_WRAP}mtp\.(?P<layer>)(?P<rest>.+)$"),
        needed=(
            "fc.weight",
            "pre_fc_norm_hidden.weight",
            "pre_fc_norm_embedding.weight",
            "norm.weight",
            "layers.0.input_layernorm.weight",
            "layers.0.self_attn.q_proj.weight",
        ),
        parts={
            "pre_fc_norm_embedding": "embedding_norm",
            "pre_fc_norm_hidden": "hidden_norm",
            "fc": "projection",
            "norm": "norm",
        },
        layer="layers.0.",
        unused=("embed_tokens", "lm_head", "layers"),
        may_store_gain_minus_one=True,
    ),
    "mimo": Layout(
        place=re.compile(rf"^{_WRAP}mtp_layers\.(?P<layer>\d+)\.(?P<rest>.+)$"),
        needed=("token_layernorm.weight", "hidden_layernorm.weight", "input_proj.weight"),
        parts={
            "token_layernorm": "embedding_norm",
            "hidden_layernorm": "hidden_norm",
            "input_proj": "projection",
            "final_layernorm": "norm",
        },
        hidden_first=True,
    ),
    "deepseek": Layout(
        place=re.compile(rf"^{_WRAP}layers\.(?P<layer>\d+)\.(?P<rest>.+)$"),
        needed=("enorm.weight", "hnorm.weight", "eh_proj.weight", "input_layernorm.weight"),
        parts=_APPENDED,
        unused=("embed_tokens", "shared_head.head"),
    ),
}


@dataclass(frozen=True)
class StoredHead:
    """A prediction head in files. `missing` lists what its layout needs and the files lack."""

    layout: str  # a key of LAYOUTS, or UNKNOWN
    depth: int  # layers stored; a qwen head of one layer also drafts deeper by feedback
    tensors: tuple[str, ...]
    nbytes: int
    where: tuple[str, ...]  # file names, relative to the folder
    missing: tuple[str, ...] = ()
    hidden_size: int | None = None  # of the target it was made for

    @property
    def usable(self) -> bool:
        return self.layout in LAYOUTS and not self.missing


def asked(*configs: Mapping[str, Any]) -> str:
    """The key that asks for what no head here does, and what that is; "" where none does."""
    said = ((key, what) for key, what in _ASKED.items() if any(c.get(key) for c in configs))
    return next((f"{key} asks for {what}" for key, what in said), "")


def promised(config: Mapping[str, Any]) -> int:
    """How many head layers the config speaks of, 0 for none."""
    return max((n for key in _PROMISES if isinstance(n := config.get(key), int)), default=0)


def find(contents: "CheckpointFiles") -> StoredHead | None:
    """The prediction head among a folder's tensors, or None."""
    prefixed = _prefixed(contents)
    found = _find({prefixed.get(name, name): t for name, t in contents.tensors.items()})
    if found is None:
        return None
    bare = {name: stored for stored, name in prefixed.items()}
    held = sorted(bare.get(name, name) for name in found.tensors)
    files = {contents.tensors[name].file for name in held}
    where = sorted(str(file.relative_to(contents.folder)) for file in files)
    return replace(found, tensors=tuple(held), where=tuple(where))


def _prefixed(contents: "CheckpointFiles") -> dict[str, str]:
    """Stored name → the same with its prefix, where a head's names lack it."""
    for names in (contents.beside, contents.tensors.keys()):
        for mark, prefix in _BARE.items():
            if mark in names:
                return {name: f"{prefix}{name}" for name in names}
    return {}


def _find(tensors: Mapping[str, "Tensor"]) -> StoredHead | None:
    if qwen := _placed("qwen", tensors):
        rests = {match["rest"] for match in qwen.values()}
        depth = len({rest.split(".")[1] for rest in rests if rest.startswith("layers.")})
        known = not rests.isdisjoint(("fc.weight", "pre_fc_norm_hidden.weight"))
        return _stored(tensors, "qwen" if known else UNKNOWN, depth, qwen, rests)
    if mimo := _placed("mimo", tensors):
        return _stored(tensors, "mimo", _depth(mimo), mimo, _first_layer(mimo))
    layers = _placed("deepseek", tensors)
    appended = {m["layer"] for m in layers.values() if m["rest"].startswith("eh_proj.")}
    if appended:
        inside = {name: match for name, match in layers.items() if match["layer"] in appended}
        return _stored(tensors, "deepseek", len(appended), inside, _first_layer(inside))
    loose = [name for name in tensors if ".mtp" in name or name.startswith("mtp")]
    return _stored(tensors, UNKNOWN, 0, loose, ()) if loose else None


def rename(layout: Layout, names: Iterable[str]) -> dict[str, str]:
    """Stored name → name in `PredictionHead`, of the first layer (deeper drafts feed it back).

    The decoder layer's tensors come out as `layer.…`, copies of the target's own not at all.
    """
    names = list(names)
    prefix = next((prefix for mark, prefix in _BARE.items() if mark in names), "")
    placed = {name: match for name in names if (match := layout.place.match(prefix + name))}
    first = min((match["layer"] for match in placed.values()), key=lambda i: int(i or 0))
    found = {}
    for name, match in placed.items():
        if match["layer"] == first and (inside := _inside(layout, match["rest"])):
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


def _placed(layout: str, tensors: Iterable[str]) -> dict[str, re.Match[str]]:
    place = LAYOUTS[layout].place
    return {name: match for name in tensors if (match := place.match(name))}


def _depth(placed: Mapping[str, re.Match[str]]) -> int:
    return len({match["layer"] for match in placed.values()})


def _first_layer(placed: Mapping[str, re.Match[str]]) -> set[str]:
    """The rests of its names."""
    first = min(int(match["layer"]) for match in placed.values())
    return {match["rest"] for match in placed.values() if int(match["layer"]) == first}


def _stored(
    tensors: Mapping[str, "Tensor"],
    layout: str,
    depth: int,
    names: Iterable[str],
    rests: Iterable[str],
) -> StoredHead:
    held = tuple(sorted(names))
    here = set(rests)
    needed = LAYOUTS[layout].needed if layout in LAYOUTS else ()
    return StoredHead(
        layout,
        depth,
        held,
        sum(tensors[name].nbytes for name in held),
        (),
        tuple(need for need in needed if need not in here),
        next((tensors[name].shape[0] for name in held if name.endswith(_HIDDEN_NORM)), None),
    )
