"""DFlash in the loop: whatever it proposes, the target's own text comes out."""

import pytest

from fixtures import dflash_checkpoints as checkpoints
from fixtures import zoo
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target

LENGTH = 24
PENALTIES = Sampling(repetition_penalty=1.3, presence_penalty=0.5)
FORBIDDING = Sampling(logit_bias=dict.fromkeys(range(3, zoo.VOCAB), -1e4))


@pytest.fixture(scope="module", params=["llama", "qwen3", "gemma3", "qwen3_5"])
def target(request):
    return Target(*zoo.build(request.param))


def drafter_for(target, version, **changes):
    ids = [0, len(target.model.layers) - 1]
    return checkpoints.drafter_for(target, version, target_layer_ids=ids, **changes)


def decoded(target, drafter, sampling=None, length=5, seed=0):
    prompt = [(7 * i + 3) % target.vocab_size for i in range(30)]
    cache = RollbackCache(target.model, max_draft=length)
    request = Request(prompt, LENGTH, sampling=sampling or Sampling(), seed=seed)
    run = Run(target, cache, drafter, Fixed(length if drafter else 0), request, PhaseTimer())
    tokens = [token for batch in run.tokens() for token in batch]
    return tokens, run.stats


@pytest.mark.parametrize("sampling", [Sampling(), PENALTIES, FORBIDDING], ids=["", "pen", "bias"])
@pytest.mark.parametrize("version", [1, 2])
def test_greedy_text_is_the_targets_own(target, version, sampling):
    plain, _ = decoded(target, None, sampling)
    text, stats = decoded(target, drafter_for(target, version), sampling)
    assert text == plain
    assert stats.drafted > LENGTH


@pytest.mark.parametrize(("version", "rows"), [(1, 0), (2, 0), (2, 40)])
def test_sampled_text_repeats_by_its_seed(target, version, rows):
    hot = Sampling(temperature=0.9, top_k=20, repetition_penalty=1.1)
    drafter = drafter_for(target, version, head_rows=rows)
    assert decoded(target, drafter, hot, seed=4)[0] == decoded(target, drafter, hot, seed=4)[0]


def test_a_smaller_output_matrix_leaves_the_text_alone(target):
    plain, _ = decoded(target, None)
    assert decoded(target, drafter_for(target, 1, head_rows=40))[0] == plain


def test_a_window_crossed_in_a_run_leaves_the_text_alone(target):
    plain, _ = decoded(target, None)
    sliding = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 12}
    assert decoded(target, drafter_for(target, 2, **sliding))[0] == plain
