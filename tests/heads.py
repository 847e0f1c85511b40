"""Tiny checkpoints with a prediction head, each laid out as its publisher lays it out.

`write(CASES["deepseek_v3"], folder)` gives the folder of a target from the zoo with a random
head stored beside it, and the head that loading must give back.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten, tree_map_with_path

from llm_specdec.drafters.mtp.head import Head, build
from tests import zoo

Weights = dict[str, mx.array]
Dress = Callable[[Any, Head], None]

_QWEN = {
    "embedding_norm": "mtp.pre_fc_norm_embedding",
    "hidden_norm": "mtp.pre_fc_norm_hidden",
    "projection": "mtp.fc",
    "norm": "mtp.norm",
    "layer": "mtp.layers.0",
}
_MIMO = {
    "embedding_norm": "model.mtp_layers.0.token_layernorm",
    "hidden_norm": "model.mtp_layers.0.hidden_layernorm",
    "projection": "model.mtp_layers.0.input_proj",
    "norm": "model.mtp_layers.0.final_layernorm",
    "layer": "model.mtp_layers.0",
}


def _appended(index: int) -> dict[str, str]:
    at = f"model.layers.{index}"
    return {
        "embedding_norm": f"{at}.enorm",
        "hidden_norm": f"{at}.hnorm",
        "projection": f"{at}.eh_proj",
        "norm": f"{at}.shared_head.norm",
        "layer": at,
    }


def gain_minus_one(weights: Weights) -> Weights:
    return {n: w - 1 if n.endswith("norm.weight") else w for n, w in weights.items()}


def one_tensor_an_expert(weights: Weights) -> Weights:
    out: Weights = {}
    for name, value in weights.items():
        before, switch, after = name.partition(".switch_mlp.")
        if switch:
            out |= {f"{before}.experts.{e}.{after}": value[e] for e in range(value.shape[0])}
        else:
            out[name] = value
    return out


def fused_experts(weights: Weights) -> Weights:
    out = dict(weights)
    at = "layer.mlp.switch_mlp"
    gate, up = out.pop(f"{at}.gate_proj.weight"), out.pop(f"{at}.up_proj.weight")
    out["layer.mlp.experts.gate_up_proj"] = mx.concatenate([gate, up], axis=1)
    out["layer.mlp.experts.down_proj"] = out.pop(f"{at}.down_proj.weight")
    return out


def joined_latent_projection(weights: Weights) -> Weights:
    """DeepSeek stores the two halves of its latent projection as one matrix."""
    out = dict(weights)
    keys = out.pop("layer.self_attn.embed_q.weight").swapaxes(-1, -2)
    values = out.pop("layer.self_attn.unembed_out.weight")
    joined = mx.concatenate([keys, values], axis=1)
    out["layer.self_attn.kv_b_proj.weight"] = joined.reshape(-1, joined.shape[-1])
    return out


@dataclass(frozen=True)
class Case:
    """A family of the zoo, the names its head is stored under, and what else is done to it."""

    family: str
    names: dict[str, str]
    stored: tuple[Callable[[Weights], Weights], ...] = ()
    file: str = "model-00002-of-00002.safetensors"
    prefix: str = ""
    hidden_first: bool = False
    bits: int | None = None
    copies: dict[str, str] = field(default_factory=dict)  # head's name → target's tensor
    changes: dict[str, Any] = field(default_factory=dict)


_COPIES = {
    "model.layers.2.embed_tokens.weight": "model.embed_tokens.weight",
    "model.layers.2.shared_head.head.weight": "lm_head.weight",
}
_MOE = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "shared_expert_intermediate_size": 32,
    "moe_intermediate_size": 32,
}

CASES = {
    "llama": Case("llama", _QWEN),
    "llama sidecar": Case("llama", _QWEN, file="mtp.safetensors"),
    "llama model-mtp": Case("llama", _QWEN, file="model-mtp.safetensors"),
    "llama sidecar 4-bit": Case("llama", _QWEN, file="mtp/weights.safetensors", bits=4),
    "qwen3": Case("qwen3", _QWEN, (gain_minus_one,)),
    "qwen3_5": Case("qwen3_5", _QWEN, (gain_minus_one,)),
    "qwen3_5 converted": Case("qwen3_5", _QWEN, prefix="language_model.", bits=8),
    "qwen3_5_moe fused": Case(
        "qwen3_5",
        _QWEN,
        (gain_minus_one, fused_experts),
        changes=_MOE | {"model_type": "qwen3_5_moe"},
    ),
    "qwen3_next": Case("qwen3_next", _QWEN, (gain_minus_one, one_tensor_an_expert)),
    "qwen3_next 4-bit": Case("qwen3_next", _QWEN, (one_tensor_an_expert,), bits=4),
    "qwen3_next fused": Case("qwen3_next", _QWEN, (fused_experts,)),
    "deepseek_v3": Case(
        "deepseek_v3",
        _appended(2),
        (one_tensor_an_expert, joined_latent_projection),
        copies=_COPIES,
    ),
    "glm4_moe": Case("glm4_moe", _appended(2), (one_tensor_an_expert,), copies=_COPIES),
    "mimo": Case("mimo", _MIMO, hidden_first=True),
}


def write(case: Case, folder: Path, dress: Dress | None = None) -> Head:
    """Write target and head; returns the head that loading must give back. `dress` may
    change both before they are written."""
    zoo.write(case.family, folder, **case.changes)
    target, _ = zoo.build(case.family, **case.changes)
    head = random_head(target, case.hidden_first)
    if dress:
        dress(target, head)
        mx.save_safetensors(
            str(folder / "model.safetensors"),
            dict(tree_flatten(target.parameters())),
            metadata={"format": "mlx"},
        )
    if case.bits:
        quantize(head, group_size=32, bits=case.bits)
    weights: Weights = dict(tree_flatten(head.parameters()))
    for change in case.stored:
        weights = change(weights)
    stored = {case.prefix + _stored_name(case, name): value for name, value in weights.items()}
    trunk = dict(tree_flatten(target.parameters()))
    stored |= {name: trunk[copied] for name, copied in case.copies.items()}
    store(folder, case.file, stored)
    return head


def random_head(target: Any, hidden_first: bool = False, seed: int = 3) -> Head:
    """A head whose norms are as far from 1 as real ones are."""
    head = build(target, hidden_first)
    mx.random.seed(seed)

    def fill(path: str, value: mx.array) -> mx.array:
        if value.ndim == 1 and path.endswith("norm.weight"):
            middle = 0.4 if path in ("embedding_norm.weight", "hidden_norm.weight") else 1.2
            return middle + 0.2 * mx.random.normal(value.shape)
        matrix: mx.array = mx.random.normal(value.shape) / value.shape[-1] ** 0.5
        return matrix

    head.update(tree_map_with_path(fill, head.parameters()))
    mx.eval(head.parameters())
    return head


def _stored_name(case: Case, name: str) -> str:
    module, _, rest = name.partition(".")
    return f"{case.names[module]}.{rest}"


def store(folder: Path, file: str, tensors: Weights) -> None:
    """Put a head's tensors into a second shard or a sidecar."""
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    mx.save_safetensors(str(path), tensors, metadata={"format": "mlx"})
    if file.startswith("model-0"):
        first = folder / "model-00001-of-00002.safetensors"
        (folder / "model.safetensors").rename(first)
        shards = dict.fromkeys(read(first), first.name) | dict.fromkeys(tensors, file)
        index = {"metadata": {}, "weight_map": shards}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def read(path: Path) -> Weights:
    tensors = mx.load(str(path))
    assert isinstance(tensors, dict)
    mx.eval(tensors)
    return tensors


TOKENS = 48  # of a disguised target: fewer than its width, so that embeddings can be orthogonal
LEADS_ASTRAY = frozenset(range(0, TOKENS, 5))


def following(token: int) -> int:
    """What the disguised target says after `token`: one cycle through all of them."""
    return (token * 13 + 7) % TOKENS


def disguise(target: Any, head: Head) -> None:
    """Make target and head predictable: all layers pass their input on, and the target says
    `following(t)` after t.

    The head reads both halves. It says the same of token p+1, unless the hidden states at p
    are those of a token that LEADS_ASTRAY: then it is wrong. So a swapped order, a shift by
    one, a gain off by one or a fed-back state of another form shows in what is accepted.
    """
    trunk = target.get("language_model", target)
    width = head.norm.weight.size
    mx.random.seed(11)
    directions = mx.linalg.qr(mx.random.normal((width, width)), stream=mx.cpu)[0][:TOKENS]
    for module in (target, head.layer):
        module.update(tree_map_with_path(_silent, module.parameters()))
    gains = [mx.exp(0.6 * mx.random.normal((width,))) for _ in range(3)]
    embedding_gain, hidden_gain, final_gain = gains
    head.embedding_norm.weight, head.hidden_norm.weight = embedding_gain, hidden_gain
    head.norm.weight = trunk.model.norm.weight = final_gain
    trunk.model.embed_tokens.weight = directions
    before = {following(token): token for token in range(TOKENS)}
    trunk.lm_head.weight = directions[mx.array([before[t] for t in range(TOKENS)])] / final_gain
    own = mx.diag(1 / embedding_gain)
    astray = mx.array([float(token in LEADS_ASTRAY) for token in range(TOKENS)])[:, None]
    # The state of such a token asks, five times as loud, for what follows token 1.
    reads = (directions * astray).sum(axis=0) * 5 / (final_gain * hidden_gain)
    halves = [own, directions[1][:, None] * reads[None]]
    head.projection.weight = mx.concatenate(halves[:: -1 if head.hidden_first else 1], axis=1)


def _silent(path: str, value: mx.array) -> mx.array:
    """Zero what a layer adds to its input."""
    adds = ("o_proj.weight", "down_proj.weight", "out_proj.weight")
    return mx.zeros_like(value) if path.endswith(adds) else value
