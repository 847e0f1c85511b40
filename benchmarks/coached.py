"""Drafters of kinds that nobody trained for SmolLM2: as large as one for it would be, of random
weights, and told what to draw, so that they are right as often as is wanted.

A Gemma 4 assistant needs a Gemma 4: a random one of that size stands in for SmolLM2.
"""

from pathlib import Path
from typing import Any

from benchmarks.harness import models
from fixtures import (
    assistant_checkpoints,
    dflash_checkpoints,
    dspark_checkpoints,
    eagle3_checkpoints,
    zoo,
)
from fixtures.every_kind import Pair
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.common import language_model
from llm_specdec.drafters.table import KINDS
from llm_specdec.engine.session import Session, Weights

ACCEPTED = (3, 1, 2, 0)  # drafts of a round, in turn
VOCAB, WIDTH, TAPS = 49_152, 576, [1, 14, 27]
_LAYER: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
}
_GEMMA: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 640,
    "intermediate_size": 2048,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "global_head_dim": 128,
    "head_dim": 64,
    "sliding_window": 512,
    "layer_types": ([*["sliding_attention"] * 5, "full_attention"]) * 3,
}


def _eagle3(place: Path) -> Pair:
    raw = eagle3_checkpoints.config("speculators", WIDTH, VOCAB, 32_000, TAPS, **_LAYER)
    drafter = eagle3_checkpoints.save(place / "d", raw, eagle3_checkpoints.weights(raw, WIDTH))
    return Pair("eagle3", models() / "smollm2", drafter)


def _dspark(place: Path) -> Pair:
    raw = dspark_checkpoints.config(
        **_LAYER,
        vocab_size=VOCAB,
        block_size=7,
        markov_rank=256,
        target_layer_ids=TAPS,
        num_target_layers=30,
        enable_confidence_head=False,
    )
    drafter = dflash_checkpoints.save(place / "d", raw, dspark_checkpoints.weights(raw))
    return Pair("dspark", models() / "smollm2", drafter)


def _assistant(place: Path) -> Pair:
    target = zoo.write(
        "gemma4", place / "target", **assistant_checkpoints.target_config("31B", **_GEMMA)
    )
    text = assistant_checkpoints.target_text("31B", **_GEMMA)
    raw = assistant_checkpoints.config(text, hidden_size=256, intermediate_size=1024)
    weights = assistant_checkpoints.weights(raw)
    return Pair("assistant", target, assistant_checkpoints.save(place / "d", raw, weights))


WRITERS = {"eagle3": _eagle3, "dspark": _dspark, "assistant": _assistant}


def three_sessions(kind: str, place: Path) -> list[Session]:
    """The plain one and two that draft, over one copy of the target's arrays."""
    pair = WRITERS[kind](place)
    target = language_model.load(pair.target)
    found = [sessions.joined(Weights(pair.target), target, None)]
    for _ in range(2):
        beside = language_model.load(pair.target)
        beside.model.update(target.model.parameters())
        weights = Weights(pair.target, kind, pair.drafter)
        drafter = KINDS[kind].load(weights, beside)
        assert drafter is not None
        found.append(sessions.joined(weights, beside, zoo.Coached(drafter, [], ACCEPTED)))
    return found
