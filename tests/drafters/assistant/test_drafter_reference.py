"""Drafts are those of transformers 5.19.0: recorded by benchmarks/assistant_reference.py."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from fixtures import assistant_checkpoints as checkpoints
from fixtures import zoo
from llm_specdec.drafters.assistant import drafter as assistant
from llm_specdec.drafters.common.language_model import load
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.taps import Taps

RECORDED = Path(__file__).with_name("reference.json")
LENGTH, DEPTH = 44, 3  # tokens, more than two windows; draft tokens
# Of the zoo's Gemma 4, and what its assistant says of itself.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "shared": ("E4B", {}),
    "clusters": ("E4B", {"clusters": True}),
    "dense": ("31B", {}),
}


def text() -> list[int]:
    tokens: list[int] = np.random.default_rng(7).integers(0, zoo.VOCAB, LENGTH).tolist()
    return tokens


def write(name: str, folder: Path) -> Path:
    """A target and its assistant."""
    target, changes = CASES[name]
    zoo.write("gemma4", folder / "target", **checkpoints.target_config(target))
    raw = checkpoints.config(checkpoints.target_text(target), **changes)
    checkpoints.save(folder / "assistant", raw, checkpoints.weights(raw))
    return folder


class Noting(DraftSampler):
    """Notes the logits of the whole vocabulary."""

    plain = False

    def __init__(self, cache: RollbackCache) -> None:
        super().__init__(Sampler(Request([0], 1), zoo.VOCAB), cache)
        self.rows: list[mx.array] = []

    def one(self, logits: mx.array, drafted: Sequence[mx.array]) -> mx.array:
        self.rows.append(logits)
        return super().one(logits, drafted)


@pytest.mark.parametrize("name", CASES)
def test_drafts_are_those_of_transformers(name, tmp_path):
    folder = write(name, tmp_path)
    target = load(folder / "target")
    drafter = assistant.load(folder / "assistant", target)
    tokens, recorded = text(), json.loads(RECORDED.read_text())[name]
    cache = RollbackCache(target.model, max_draft=DEPTH)
    drafter.start(tokens[0])
    found, rows = [], []
    with Taps(target.model, drafter.taps) as taps:
        for i, token in enumerate(tokens[:-1]):
            # Rejected drafts stand in between.
            mx.eval(target.forward(mx.array([token, 5, 6, 7]), cache))
            cache.rollback(i + 1)
            drafter.extend([tokens[i + 1]], {"final_norm": taps.take()["final_norm"][:1]})
            draw = Noting(cache)
            found.append(drafter.propose(DEPTH, draw).tokens.tolist())
            rows.append(mx.stack(draw.rows))
    assert found == recorded["drafts"]
    for ours, theirs in zip(rows[-len(recorded["logits"]) :], recorded["logits"], strict=True):
        there = np.array(ours) > -1e3  # what is left out has the lowest logit less one, there
        # Rounding of float32, which grows as states are fed back: 1e-5 in the first row.
        np.testing.assert_allclose(np.array(ours)[there], np.array(theirs)[there], atol=3e-4)


if __name__ == "__main__":
    for each in CASES:
        (write(each, Path(sys.argv[1]) / each) / "text.json").write_text(json.dumps(text()))
