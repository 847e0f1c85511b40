"""Draft logits are those of `speculators` 0.9.0: recorded by benchmarks/eagle3_reference.py."""

import json
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from fixtures import dflash_checkpoints
from fixtures import eagle3_checkpoints as checkpoints
from llm_specdec.drafters.eagle3 import drafter as eagle3

WIDTH, VOCAB, ROWS, TOLD, STEPS = 48, 96, 40, 14, 5
RECORDED = Path(__file__).with_name("reference.json")
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"norm_before_residual": True, "norm_before_fc": True},
    "each": {"fc_norm": True, "norm_output": True},
    "qwen3": {"model_type": "qwen3", "num_hidden_layers": 2},
    "rope": {
        "rope_theta": 5000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
}


def write(name: str, folder: Path) -> Path:
    raw = checkpoints.config("speculators", WIDTH, VOCAB, ROWS, [0, 1, 2], **CASES[name])
    raw["transformer_layer_config"]["hidden_size"] = WIDTH
    return checkpoints.save(folder / name, raw, checkpoints.weights(raw, WIDTH))


def told() -> dict[str, mx.array]:
    rng = np.random.default_rng(5)
    states = rng.normal(0, 1, (TOLD, 3 * WIDTH)).astype(np.float32)
    return {"states": mx.array(states), "tokens": mx.array(rng.integers(0, VOCAB, TOLD))}


@pytest.mark.parametrize("name", CASES)
def test_draft_logits_are_those_of_speculators(name, tmp_path):
    lender = dflash_checkpoints.Lender(hidden=WIDTH, vocab=VOCAB)
    drafter = eagle3.load(write(name, tmp_path), lender, 8, "inputs")
    given, rows = told(), []
    tokens, states = given["tokens"], drafter.model.fuse(given["states"][None])
    for _ in range(STEPS):
        output = drafter._pass(tokens, states)
        normed = drafter.model.norm(output)
        rows.append(drafter.logits(normed)[-1])
        tokens = drafter.chosen(rows[-1][None])
        states = (normed if drafter.config.norm_output else output)[None, -1:]
    recorded = np.array(json.loads(RECORDED.read_text())[name])
    np.testing.assert_allclose(np.array(mx.stack(rows)), recorded, atol=5e-5)


if __name__ == "__main__":
    for each in CASES:
        inputs = write(each, Path(sys.argv[1])) / "in"
        inputs.mkdir()
        mx.save_safetensors(str(inputs / "inputs.safetensors"), told())
