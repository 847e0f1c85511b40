"""Calibration tries what a run would draft, for all positions at once."""

import mlx.core as mx
import numpy as np
import pytest

from fixtures import assistant_checkpoints as checkpoints
from fixtures import zoo
from llm_specdec.drafters.assistant import KIND
from llm_specdec.drafters.assistant.calibration import acceptance
from llm_specdec.drafters.assistant.drafter import AssistantDrafter
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target

PROMPT = [int(token) for token in np.random.default_rng(1).integers(0, zoo.VOCAB, 20)]


@pytest.mark.parametrize("clusters", [False, True])
def test_acceptance_is_that_of_drafts_made_one_by_one(clusters):
    """An answer that is made of the drafts of one reading, past the window."""
    target = Target(*zoo.build("gemma4", **checkpoints.target_config("31B")))
    drafter = checkpoints.drafter_for(target, checkpoints.target_text("31B"), clusters=clusters)
    drafted = {}
    for reads in KIND.readings:
        told = AssistantDrafter(drafter.config, drafter.model, target, {**drafter._layers}, reads)
        drafted[reads] = one_by_one(told, target, 30)
    assert drafted["last"] != drafted["before"]
    for reads, answer in drafted.items():
        found = acceptance(drafter, target, PROMPT, answer)
        assert found[reads] == 1.0 > min(found.values())


def one_by_one(drafter, target, n):
    """Tokens each of which is the draft after those before; the first is made up."""
    cache, tokens = RollbackCache(target.model), [*PROMPT, 5]
    drafter.start(tokens[0])
    with Taps(target.model, drafter.taps) as taps:
        mx.eval(target.forward(mx.array(PROMPT), cache))
        drafter.extend(tokens[1:], taps.take())
        for _ in range(n):
            draw = DraftSampler(Sampler(Request(tokens, 1), zoo.VOCAB), cache)
            drafted = drafter.propose(1, draw).tokens.tolist()
            mx.eval(target.forward(mx.array(tokens[-1:]), cache))
            drafter.extend(drafted, taps.take())
            tokens += drafted
    return tokens[len(PROMPT) :]
