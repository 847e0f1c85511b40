"""Prompt lookup in a drafter's place: the text stays the plain path's, the drafter's state true."""

import json
from pathlib import Path
from typing import Literal

import pytest

from fixtures import parity, zoo
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Pick
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.session import Weights

PROMPTS = Path(__file__).parents[2] / "fixtures" / "cases" / "prompts.jsonl"
PROMPT = parity.PROMPTS["long"]


class InTurns:
    """Whoever else can propose does, every other round."""

    adapts = True
    longest = 4
    state: Literal["drafting", "parked"] = "drafting"
    reason = None

    def __init__(self):
        self.rounds = 0

    def pick(self, sources, context):
        return Pick(sources[-1 if self.rounds % 2 else 0], self.longest)

    def observe(self, source, drafted, accepted, pick=None):
        self.rounds += 1


class Second(zoo.Scripted):
    kind = source = "second"


def run(family, drafter):
    """Both by turns; the second one is right half of the time."""
    target = parity.target(family)
    text = [*PROMPT, *parity.plain(family, "plain", "long")]
    cache = RollbackCache(target.model, max_draft=4)
    request = Request(PROMPT, parity.TOKENS)
    second = Second(text, rate=0.5)
    decoding = Run(target, cache, drafter, InTurns(), request, PhaseTimer(), second)
    assert [*PROMPT, *(t for tokens in decoding.tokens() for t in tokens)] == text
    return decoding.stats


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_taking_turns_leaves_the_text_as_it_is(family):
    right = zoo.Scripted([*PROMPT, *parity.plain(family, "plain", "long")], rate=1.0)
    stats = run(family, right)
    _, drafted, accepted = stats.by_source["scripted"]
    _, guessed, found = stats.by_source["second"]
    assert accepted == drafted > 0
    assert 0 < found < guessed
    assert (stats.drafted, stats.accepted) == (drafted + guessed, accepted + found)


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_a_drafter_with_a_cache_of_its_own_stays_right_between_lookups(family):
    """The target as its own drafter is always right, unless its state went wrong."""
    target = parity.target(family)
    stats = run(family, ModelDrafter(target, target.vocab_size))
    rounds, drafted, accepted = stats.by_source["model"]
    assert accepted == drafted > 0
    assert stats.rounds > rounds


def question(name):
    rows = map(json.loads, PROMPTS.read_text("utf-8").splitlines())
    return next(row["prompt"] for row in rows if row["id"] == name)


@pytest.mark.real
@pytest.mark.slow
def test_auto_hands_a_copied_passage_to_lookup(smollm2):
    """A real model asked to copy, under costs that make every draft pay."""
    flat = dict.fromkeys((1, 16), 1.0)
    costs = Costs((128, 2048), (flat, flat), {"model": (flat, flat)})
    plain_weights = Weights(smollm2 / "smollm2")
    message = [{"role": "user", "content": question("copy-1")}]
    tokenizer = sessions.load(plain_weights).tokenizer
    prompt = list(tokenizer.apply_chat_template(message, add_generation_prompt=True))
    request = Request(prompt, 60, frozenset(tokenizer.eos_token_ids))
    small = Weights(smollm2 / "smollm2", "model", smollm2 / "drafters" / "model")
    runs = [
        sessions.load(plain_weights).run(request, PhaseTimer()),
        sessions.load(small).run(request, PhaseTimer(), "auto", costs=costs),
    ]
    plain, combined = ([t for tokens in run.tokens() for t in tokens] for run in runs)
    assert combined == plain
    assert runs[1].stats.by_source["lookup-long"][2] > 0
    assert runs[1].stats.by_source["model"][0] > 0
