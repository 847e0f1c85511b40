"""DFlash drafters of every layout, told a conversation and asked for drafts."""

from typing import Any

import mlx.core as mx
import numpy as np

from fixtures.dflash_checkpoints import HIDDEN, LAYER_IDS, VOCAB
from llm_specdec.engine.drafter import Proposal

SLIDING: dict[str, Any] = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 12}
LAYOUTS: dict[str, dict[str, Any]] = {
    "full": {},
    "full-causal": {"is_causal": True},
    "sliding": SLIDING,
    "sliding-not-causal": {**SLIDING, "is_causal": False},
    "mixed": {**SLIDING, "layer_types": ["sliding_attention", "full_attention"]},
    "scales": {
        "final_logit_softcapping": 4.0,
        "output_multiplier": 1.5,
        "input_embedding_scale": 2.0,
    },
    "from-anchor": {"sample_from_anchor": True},
    "neighbours-rope": {"rope_is_neox_style": False},
    "rope-by-layer": {
        **SLIDING,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0},
        },
    },
    "linear-rope": {"rope_scaling": {"type": "linear", "factor": 2.0}},
}


class Recorder:
    """Draws greedily and keeps the logits it was shown."""

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain
        self.rows: list[np.ndarray] = []

    def one(self, logits, drafted):
        self.rows.append(np.array(logits))
        return mx.argmax(logits).astype(mx.int32)

    def block(self, logits):
        self.rows = list(np.array(logits))
        return mx.argmax(logits, axis=-1).astype(mx.int32)

    def proposal(self, tokens):
        return Proposal(tokens)

    def keys_and_values(self, layer, rows=None):
        raise AssertionError("a block drafter has a cache of its own")


def conversation(length: int = 60, seed: int = 3):
    """Tokens c[0..length] and the hidden states of positions 0..length - 1."""
    rng = np.random.default_rng(seed)
    taps = rng.normal(0, 1, (length, HIDDEN * len(LAYER_IDS))).astype(np.float32)
    return rng.integers(0, VOCAB, length + 1).tolist(), taps


def tell(drafter, tokens, taps, start, stop):
    rows = mx.array(taps[start:stop])
    hidden = {tap: rows[:, i * HIDDEN : (i + 1) * HIDDEN] for i, tap in enumerate(LAYER_IDS)}
    drafter.extend(tokens[start + 1 : stop + 1], hidden)


def proposed(drafter, k, draw) -> list[int]:
    tokens: list[int] = drafter.propose(k, draw).tokens.tolist()
    return tokens
