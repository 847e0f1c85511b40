"""Tiny random DFlash checkpoints and a target that lends them an embedding and a head."""

import json
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from llm_specdec.drafters.dflash import drafter as dflash
from llm_specdec.drafters.dflash.drafter import DFlashDrafter

HIDDEN, VOCAB, LAYER_IDS = 32, 97, [0, 2]

CONFIG = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 48,
    "vocab_size": VOCAB,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "num_target_layers": 4,
    "dflash_config": {"target_layer_ids": LAYER_IDS, "mask_token_id": 5, "block_size": 6},
}
SECOND = {"conv_kernel_size": 3, "conv_group_size": 8, "selector_rank": 8, "selector_top_k": 4}


def config(version: int = 1, **changes) -> dict[str, Any]:
    """A config; keys that belong inside `dflash_config` are put there."""
    found: dict[str, Any] = json.loads(json.dumps(CONFIG))
    if version == 2:
        found["architectures"] = ["DFlash2DraftModel"]
        found["dflash_config"].update(SECOND)
    inner = {*found["dflash_config"], "output_multiplier", "input_embedding_scale"}
    for key, value in changes.items():
        (found["dflash_config"] if key in inner else found)[key] = value
    return found


def weights(raw: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Random float32 tensors of the public layout, codebooks without `.weight`."""
    rng = np.random.default_rng(seed)
    hidden, dim, inter = raw["hidden_size"], raw["head_dim"], raw["intermediate_size"]
    heads, kv_heads = raw["num_attention_heads"], raw["num_key_value_heads"]
    dflash = raw["dflash_config"]

    def matrix(rows, columns):
        return rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def gains(size):
        return rng.uniform(0.5, 1.5, size).astype(np.float32)

    found = {
        "fc.weight": matrix(hidden, hidden * len(dflash["target_layer_ids"])),
        "hidden_norm.weight": gains(hidden),
        "norm.weight": gains(hidden),
    }
    for i in range(raw["num_hidden_layers"]):
        layer = {
            "self_attn.q_proj.weight": matrix(heads * dim, hidden),
            "self_attn.k_proj.weight": matrix(kv_heads * dim, hidden),
            "self_attn.v_proj.weight": matrix(kv_heads * dim, hidden),
            "self_attn.o_proj.weight": matrix(hidden, heads * dim),
            "self_attn.q_norm.weight": gains(dim),
            "self_attn.k_norm.weight": gains(dim),
            "mlp.gate_proj.weight": matrix(inter, hidden),
            "mlp.up_proj.weight": matrix(inter, hidden),
            "mlp.down_proj.weight": matrix(hidden, inter),
            "input_layernorm.weight": gains(hidden),
            "post_attention_layernorm.weight": gains(hidden),
        }
        if "conv_kernel_size" in dflash:
            width, groups = dflash["conv_kernel_size"], hidden // dflash["conv_group_size"]
            for name in ("attention_conv", "mlp_conv"):
                layer[f"{name}.base_kernel"] = matrix(2 * width, hidden).reshape(2, width, hidden)
                layer[f"{name}.kernel_projection.weight"] = matrix(2 * width * groups, hidden)
        found.update({f"layers.{i}.{name}": value for name, value in layer.items()})
    if "selector_rank" in dflash:
        rank = dflash["selector_rank"]
        found["candidate_selector.hidden_projection.weight"] = matrix(rank, hidden)
        found["candidate_selector.predecessor_codebook"] = matrix(raw["vocab_size"], rank) * 4
        found["candidate_selector.successor_codebook"] = matrix(raw["vocab_size"], rank) * 4
    return found


def smaller_head(raw: dict[str, Any], rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    """An own output matrix over `rows` tokens, as `speculators` stores it: d2t as offsets."""
    rng = np.random.default_rng(seed)
    vocab, hidden = raw["vocab_size"], raw["hidden_size"]
    tokens = np.sort(rng.choice(vocab, rows, replace=False))
    return {
        "lm_head.weight": rng.normal(0, hidden**-0.5, (rows, hidden)).astype(np.float32),
        "d2t": (tokens - np.arange(rows)).astype(np.int64),
        "t2d": np.isin(np.arange(vocab), tokens),
    }


def save(folder: Path, raw: dict[str, Any], tensors: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(raw))
    mx.save_safetensors(
        str(folder / "model.safetensors"), {key: mx.array(value) for key, value in tensors.items()}
    )
    return folder


def drafter_for(target: Any, version: int, head_rows: int = 0, **changes: Any) -> DFlashDrafter:
    """A random drafter that fits a loaded target; `head_rows` gives it a smaller head."""
    width = target.embed(mx.array([0])).shape[-1]
    raw = config(version, hidden_size=width, vocab_size=target.vocab_size, **changes)
    tensors = weights(raw)
    if head_rows:
        tensors |= smaller_head(raw, head_rows)
    with tempfile.TemporaryDirectory() as place:
        return dflash.load(save(Path(place) / "drafter", raw, tensors), target)


class Lender:
    """What a drafter borrows of a target."""

    def __init__(self, hidden: int = HIDDEN, vocab: int = VOCAB, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self.vocab_size = vocab
        self.embedding = rng.normal(0, 1, (vocab, hidden)).astype(np.float32)
        self.matrix = rng.normal(0, hidden**-0.5, (vocab, hidden)).astype(np.float32)

    def embed(self, tokens: mx.array) -> mx.array:
        return mx.array(self.embedding)[tokens]

    def head(self, hidden: mx.array, rows: int | None = None) -> mx.array:
        return hidden @ mx.array(self.matrix[:rows]).T
