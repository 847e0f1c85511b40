"""DFlash in the loop: whatever it proposes, the target's own text comes out."""

import mlx.core as mx
import pytest

from llm_specdec.engine.drafters.dflash import drafter as dflash
from llm_specdec.engine.loop import Request, Run
from llm_specdec.engine.phases import Meter
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.rollback import TargetCache
from llm_specdec.engine.target import Target
from llm_specdec.engine.transforms import Sampling
from tests import zoo
from tests.engine.drafters import dflash_checkpoints as checkpoints

LENGTH = 24
PENALTIES = Sampling(repetition_penalty=1.3, presence_penalty=0.5)
FORBIDDING = Sampling(logit_bias=dict.fromkeys(range(3, zoo.VOCAB), -1e4))


@pytest.fixture(scope="module", params=["llama", "qwen3", "gemma3", "qwen3_5"])
def target(request):
    return Target(*zoo.build(request.param))


def drafter_for(target, folder, version, rows=None, **changes):
    width = target.embed(mx.array([0])).shape[-1]
    raw = checkpoints.config(version, hidden_size=width, vocab_size=target.vocab_size, **changes)
    raw["dflash_config"]["target_layer_ids"] = [0, len(target.model.layers) - 1]
    tensors = checkpoints.weights(raw)
    if rows:
        tensors |= checkpoints.smaller_head(raw, rows)
    return dflash.load(checkpoints.save(folder / "drafter", raw, tensors), target)


def decoded(target, drafter, sampling=None, length=5, seed=0):
    prompt = [(7 * i + 3) % target.vocab_size for i in range(30)]
    cache = TargetCache(target.model, max_draft=length)
    request = Request(prompt, LENGTH, sampling=sampling or Sampling(), seed=seed)
    run = Run(target, cache, drafter, Fixed(length if drafter else 0), request, Meter())
    tokens = [token for batch in run.tokens() for token in batch]
    return tokens, run.tally


@pytest.mark.parametrize("sampling", [Sampling(), PENALTIES, FORBIDDING], ids=["", "pen", "bias"])
@pytest.mark.parametrize("version", [1, 2])
def test_greedy_text_is_the_targets_own(target, tmp_path, version, sampling):
    plain, _ = decoded(target, None, sampling)
    text, tally = decoded(target, drafter_for(target, tmp_path, version), sampling)
    assert text == plain
    assert tally.drafted > LENGTH


@pytest.mark.parametrize(("version", "rows"), [(1, None), (2, None), (2, 40)])
def test_sampled_text_repeats_by_its_seed(target, tmp_path, version, rows):
    hot = Sampling(temperature=0.9, top_k=20, repetition_penalty=1.1)
    drafter = drafter_for(target, tmp_path, version, rows)
    assert decoded(target, drafter, hot, seed=4)[0] == decoded(target, drafter, hot, seed=4)[0]


def test_a_smaller_output_matrix_leaves_the_text_alone(target, tmp_path):
    plain, _ = decoded(target, None)
    assert decoded(target, drafter_for(target, tmp_path, 1, rows=40))[0] == plain


def test_a_window_crossed_in_a_run_leaves_the_text_alone(target, tmp_path):
    plain, _ = decoded(target, None)
    sliding = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 12}
    assert decoded(target, drafter_for(target, tmp_path, 2, **sliding))[0] == plain
