"""How publishers name and wire a prediction head. Facts, no code that runs the head.

A head is told by tensor names alone: a config that promises one proves nothing, and neither
does one that is silent. Sources: the tensor names of the published checkpoints (`qwen`:
Qwen3-Next, 3.5 and later; `deepseek`, layers appended after the last: DeepSeek-V3, GLM-4.x;
`mimo`); the order of the two halves and the norms as vLLM's model files for qwen3_next,
deepseek, glm4_moe, mimo and ernie4_5 and mlx_vlm's for nemotron_h have them. A repository of a
head alone may name its tensors otherwise (mlx_vlm's splitter does).
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

_DERIVED = (".k_scale", ".v_scale")  # of a cache in 8 bits, which there is none of here

# The norm whose length is the target's hidden size.
_HIDDEN_NORM = (
    "pre_fc_norm_hidden.weight", ".hnorm.weight", ".hidden_layernorm.weight",
    "mtp_hidden_norm.0.weight",
)  # fmt: skip

# A tensor that only a head alone has → how its names become those it has in a target.
_ALONE: dict[str, tuple[tuple[str, str], ...]] = {
    "pre_fc_norm_hidden.weight": ((r"^", "mtp."),),
    "layers.0.eh_proj.weight": ((r"^", "mtp."),),
    "model.eh_proj.weight": (
        (r"^model\.mtp_block\.", "model.layers.0."),
        (r"^model\.shared_head_norm\.", "model.layers.0.shared_head.norm."),
        (r"^model\.(?=(enorm|hnorm|eh_proj|embed_tokens)\.)", "model.layers.0."),
        (r"^lm_head\.", "model.layers.0.shared_head.head."),
    ),
}

# Model types whose heads are known and not run → why.
_NOT_RUN = {
    **dict.fromkeys(
        ("glm_moe_dsa", "deepseek_v32"),
        "its layer keeps an index of its own beside keys and values, which is not done here",
    ),
    "step3p5": "each draft token has a layer and an output matrix of its own, "
    "which is not done here",
    "mimo_v2_flash": "each draft token has a layer of its own with a sliding window, "
    "which is not done here",
    "longcat_flash": "its layer is of another kind than the target's, which is not done here",
}

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
    becomes: str = "layer."  # what that beginning is in `PredictionHead`
    normed: bool = True  # whether it has a norm of its own before the output matrix
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
    "ernie": Layout(
        place=re.compile(
            rf"^{_WRAP}(?P<layer>)"
            r"(?P<rest>mtp_(?:block|emb_norm|hidden_norm|linear_proj)\.\d+\..+)$"
        ),
        needed=(
            "mtp_emb_norm.0.weight",
            "mtp_hidden_norm.0.weight",
            "mtp_linear_proj.0.weight",
            "mtp_block.0.input_layernorm.weight",
        ),
        parts={
            "mtp_emb_norm.0": "embedding_norm",
            "mtp_hidden_norm.0": "hidden_norm",
            "mtp_linear_proj.0": "projection",
        },
        layer="mtp_block.0.",
        unused=("mtp_block", "mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj"),
        normed=False,
    ),
    "nemotron": Layout(
        place=re.compile(rf"^{_WRAP}mtp\.(?P<layer>)(?P<rest>.+)$"),
        needed=("layers.0.enorm.weight", "layers.0.hnorm.weight", "layers.0.eh_proj.weight"),
        parts={
            "layers.0.enorm": "embedding_norm",
            "layers.0.hnorm": "hidden_norm",
            "layers.0.eh_proj": "projection",
            **{f"layers.{last}.final_layernorm": "norm" for last in range(8)},
        },
        layer="layers.",
        becomes="layer.blocks.",
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
    not_run: str = ""  # why it cannot be used, though its layout is known

    @property
    def usable(self) -> bool:
        return not self.fault

    @property
    def fault(self) -> str:
        """Why it cannot be used; "" where it can."""
        if self.not_run:
            return self.not_run
        if self.layout not in LAYOUTS:
            return "its layout is unknown"
        return f"it lacks {', '.join(self.missing)}" if self.missing else ""


def asked(*configs: Mapping[str, Any]) -> str:
    """The key that asks for what no head here does, and what that is; "" where none does."""
    said = ((key, what) for key, what in _ASKED.items() if any(c.get(key) for c in configs))
    return next((f"{key} asks for {what}" for key, what in said), "")


def promised(config: Mapping[str, Any]) -> int:
    """How many head layers the config speaks of, 0 for none."""
    return max((n for key in _PROMISES if isinstance(n := config.get(key), int)), default=0)


def find(contents: "CheckpointFiles") -> StoredHead | None:
    """The prediction head among a folder's tensors, or None."""
    named = _in_a_target(contents.beside) or _in_a_target(contents.tensors)
    found = _find({named.get(name, name): t for name, t in contents.tensors.items()})
    model_type = str(contents.text.get("model_type"))
    if found is None and str(contents.config.get("model_type")).endswith("_mtp"):
        every = contents.tensors
        found = _stored(every, UNKNOWN, 0, every, ())
    if found is None:
        return None
    stored = {name: stored for stored, name in named.items()}
    held = sorted(stored.get(name, name) for name in found.tensors)
    files = {contents.tensors[name].file for name in held}
    where = sorted(str(file.relative_to(contents.folder)) for file in files)
    not_run = _NOT_RUN.get(model_type, "")
    return replace(found, tensors=tuple(held), where=tuple(where), not_run=not_run)


def _in_a_target(names: Iterable[str]) -> dict[str, str]:
    """Stored name → the name in a target, where these are the names of a head alone."""
    names = set(names)
    rules = next((rules for mark, rules in _ALONE.items() if mark in names), ())
    return {name: _rewritten(name, rules) for name in names} if rules else {}


def _rewritten(name: str, rules: Iterable[tuple[str, str]]) -> str:
    changed = (re.sub(pattern, other, name) for pattern, other in rules)
    return next((new for new in changed if new != name), name)


def _find(tensors: Mapping[str, "Tensor"]) -> StoredHead | None:
    if qwen := _placed("qwen", tensors):
        rests = {match["rest"] for match in qwen.values()}
        depth = len({rest.split(".")[1] for rest in rests if rest.startswith("layers.")})
        if "layers.0.eh_proj.weight" in rests and any(".mixer." in rest for rest in rests):
            return _stored(tensors, "nemotron", 1, qwen, rests)
        known = not rests.isdisjoint(("fc.weight", "pre_fc_norm_hidden.weight"))
        return _stored(tensors, "qwen" if known else UNKNOWN, depth, qwen, rests)
    if ernie := _placed("ernie", tensors):
        rests = {match["rest"] for match in ernie.values()}
        depth = sum(rest.startswith("mtp_linear_proj.") for rest in rests)
        return _stored(tensors, "ernie", depth, ernie, rests)
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
    named = _in_a_target(names)
    placed = {n: match for n in names if (match := layout.place.match(named.get(n, n)))}
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
    if rest.endswith(_DERIVED) or "rotary_emb." in rest:
        return None
    if layout.layer and rest.startswith(layout.layer):
        return layout.becomes + rest.removeprefix(layout.layer)
    if rest.startswith(tuple(f"{name}." for name in layout.unused)):
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
        next((tensors[name].rows for name in held if name.endswith(_HIDDEN_NORM)), None),
    )
