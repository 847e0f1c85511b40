"""Whether a head from another folder suits a target: by tensor headers and configs, no weights."""

import re
from typing import Any

from llm_specdec.checkpoint import Anatomy, weights
from llm_specdec.checkpoint.anatomy import has_model
from llm_specdec.drafters.kind import tokenizer_mismatches
from llm_specdec.drafters.mtp.layouts import LAYOUTS, StoredHead, asked, find, rename

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(?P<rest>self_attn\..+|.*layernorm\.weight)$")

# What a layer computes by, beside its tensors: a head is run as the target's own layers are.
_SETTINGS = (
    "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps",
    "rope_theta", "partial_rotary_factor", "num_experts_per_tok", "norm_topk_prob",
    "scoring_func", "routed_scaling_factor",
)  # fmt: skip


def mismatches(target: Anatomy, drafter: Anatomy, head: StoredHead | None) -> list[str]:
    """What keeps `drafter`'s head from drafting for this target, with both figures; [] if
    nothing. Raises CheckpointError when a tokenizer cannot be read."""
    name = drafter.folder.name
    if head is None:
        return [f"{name} holds no prediction head"]
    if why := asked(drafter.contents.config, drafter.contents.text):
        return [f"{name}: {why}, which no prediction head here has"]
    family = drafter.model_type.removesuffix("_mtp")
    if family != drafter.model_type and not has_model(family):
        return [f"{name} is a prediction head for {family}, and mlx-lm has no {family} yet"]
    if head.fault:
        return [f"{name} holds a prediction head that cannot be used: {head.fault}"]
    if head.hidden_size not in (None, target.hidden_size):
        return [
            f"hidden size: the head is made for {head.hidden_size}, "
            f"the target has {target.hidden_size}"
        ]
    return [
        *_vocabulary(target, drafter),
        *_shapes(target, drafter, head),
        *_settings(target, drafter),
        *(tokenizer_mismatches(target, drafter) if drafter.tokenizer else ()),
    ]


def _vocabulary(target: Anatomy, drafter: Anatomy) -> list[str]:
    one, two = drafter.vocab_size, target.vocab_size
    if not one or one == two:
        return []
    return [f"vocabulary: the head is made for {one:,} entries, the target has {two:,}"]


def _shapes(target: Anatomy, drafter: Anatomy, head: StoredHead) -> list[str]:
    """The first of the head's norms and attention matrices that the target's layers have in
    another shape. A head is built as the target's last layer with attention."""
    theirs = _last_attention(target)
    names = rename(LAYOUTS[head.layout], head.tensors)
    for stored, inside in sorted(names.items()):
        own = theirs.get(inside.removeprefix("layer."))
        if own is None or not stored.endswith(".weight"):
            continue
        both = ((stored, drafter), (own, target))
        one, two = drafter.contents.tensors[stored].shape, target.contents.tensors[own].shape
        if any(f"{n.removesuffix('weight')}scales" in f.contents.tensors for n, f in both):
            one, two = one[:-1], two[:-1]  # columns are packed
        if one != two:
            return [f"{inside}: the head has {_written(one)}, the target {_written(two)}"]
    return []


def _settings(target: Anatomy, drafter: Anatomy) -> list[str]:
    """The first that both configs name, with other values."""
    for key in _SETTINGS:
        one, two = _said(drafter, key), _said(target, key)
        if None not in (one, two) and one != two:
            return [f"{key}: the head is made for {one}, the target has {two}"]
    return []


def _said(found: Anatomy, key: str) -> Any:
    ropes = found.contents.text.get("rope_parameters")
    value = found.contents.text.get(key)
    return ropes.get(key) if value is None and isinstance(ropes, dict) else value


def _last_attention(target: Anatomy) -> dict[str, str]:
    """Name in the layer → name in the files, of the target's last layer with attention."""
    layers: dict[int, dict[str, str]] = {}
    own = find(target.contents)
    trunk = target.contents.tensors.keys() - {*(own.tensors if own else ())}
    for name in trunk:
        if weights.is_text(name) and (match := _LAYER.search(name)):
            layers.setdefault(int(match[1]), {})[match["rest"]] = name
    with_attention = [i for i, rests in layers.items() if any("self_attn" in r for r in rests)]
    return layers[max(with_attention)] if with_attention else {}


def _written(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape)
