"""Greedy output equals mlx-lm's plain path, token for token (the counts: benchmarks.parity)."""

import mlx.core as mx
import pytest
from mlx.nn.layers.quantized import quantize
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import KVCache, QuantizedKVCache, make_prompt_cache

from fixtures import parity, zoo
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.replay import Difference
from llm_specdec.engine.request import Request, Round
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.target import Target


def a_part(family):
    """Each lane once; prompts, transforms and draft lengths take turns from family to family."""
    shift = list(zoo.FAMILIES).index(family)
    for i, lane in enumerate(parity.LANES):
        prompt = list(parity.PROMPTS)[(i + shift) % 2]
        recipe = list(parity.RECIPES)[(i + shift // 2) % 4]
        length = parity.LENGTHS[(i + 3 * shift) % 4] if lane != "none" else 0
        if parity.runs(family, lane):
            yield parity.Case(family, lane, recipe, length, prompt)


@pytest.mark.parametrize("family", zoo.FAMILIES)
def test_greedy_text_is_the_plain_paths(family):
    outcomes = [parity.run(case) for case in a_part(family)]
    assert not [o for o in outcomes if o.verdict == "broken"]
    accepted = {
        lane: sum(o.accepted for o in outcomes if o.case.lane == lane) for lane in parity.LANES
    }
    drafted = {
        lane: sum(o.drafted for o in outcomes if o.case.lane == lane) for lane in parity.LANES
    }
    assert accepted["oracle"] == drafted["oracle"] > 0
    assert accepted["adversary"] == 0 < drafted["adversary"]
    assert 0 < accepted["mixed"] < drafted["mixed"]


@pytest.mark.slow
@pytest.mark.parametrize("family", zoo.FAMILIES)
def test_greedy_text_is_the_plain_paths_in_a_third_of_all_combinations(family):
    """Another third from family to family; `python -m benchmarks.parity` runs them all."""
    shift = list(zoo.FAMILIES).index(family) % 3
    outcomes = [parity.run(case) for case in [*parity.cases([family])][shift::3]]
    assert not [o for o in outcomes if o.verdict == "broken"]


@pytest.mark.parametrize("precision", parity.PRECISIONS)
def test_no_lane_is_broken_in_other_precisions(precision):
    """A sample, another one for each; `python -m benchmarks.parity bits` runs them all."""
    shift = list(parity.PRECISIONS).index(precision)
    found = [case for case in parity.cases_in_bits() if case.precision == precision]
    outcomes = [parity.run(case) for case in found[shift::45]]
    assert len({o.case.lane for o in outcomes}) > 2 and any(o.accepted for o in outcomes)
    assert not [o for o in outcomes if o.verdict == "broken"]


@pytest.mark.parametrize("fault", parity.FAULTS)
def test_a_fault_is_called_broken_in_every_precision(fault):
    cases = [c for c in [*parity.faulty_cases()][::5] if parity.run(c).verdict == "identical"]
    outcomes = [parity.run(case, fault) for case in cases]
    verdicts = [o.verdict for o in outcomes if o.verdict != "identical"]
    assert verdicts and set(verdicts) == {"broken"}


def test_a_difference_that_is_no_tie_counts_as_broken():
    case = parity.Case("llama", "none", "plain", 0, "short")
    assert parity.Outcome(case, 0, 0).verdict == "identical"
    for exact, verdict in ((True, "tie"), (False, "broken")):
        found = Difference(position=3, gap=0.1, exact=exact)
        assert parity.Outcome(case, 0, 0, found).verdict == verdict


def test_every_combination_is_counted_once():
    found = list(parity.cases())
    everywhere = len(zoo.FAMILIES) * 2 * 4 * (1 + 8 * 4)
    gemma3n, gemma4 = -3 * 2 * 4 * 4, 2 * 4 * 4  # without three lanes, with one of its own
    assert len(found) == len(set(found)) == everywhere + gemma3n + gemma4


@pytest.mark.parametrize("kv_bits", [None, 8])
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_a_quantised_target_and_its_quantised_cache_draft_exactly(family, kv_bits):
    """Also: what a caller would read from the cache's layers is what the run wrote."""
    model, config = zoo.build(family)
    quantize(model, group_size=32, bits=4)
    target, prompt = Target(model, config), parity.PROMPTS["long"]
    theirs = make_prompt_cache(model)
    if kv_bits:
        theirs = [QuantizedKVCache(32, kv_bits) if type(c) is KVCache else c for c in theirs]
    steps = generate_step(mx.array(prompt), model, max_tokens=30, prompt_cache=theirs)
    expected = [token for token, _ in steps]
    cache = RollbackCache(model, kv_bits=kv_bits, kv_group_size=32, max_draft=4)
    drafter = zoo.Scripted([*prompt, *expected], rate=0.6)
    run = Run(target, cache, drafter, Fixed(4), Request(prompt, 30), PhaseTimer())
    assert [token for tokens in run.tokens() for token in tokens] == expected
    assert 0 < run.stats.accepted < run.stats.drafted
    offsets = {c.offset for c in cache.layers if hasattr(c, "offset")}
    assert offsets == {cache.length} == {len(prompt) + 29}
    quantised = [c for c in cache.layers if isinstance(c, QuantizedKVCache)]
    assert bool(quantised) == bool(kv_bits)


def test_a_policy_that_asks_for_more_than_the_cache_can_undo_gets_less():
    target, text = parity.target("qwen3_5"), parity.plain("qwen3_5", "plain", "long")
    prompt = parity.PROMPTS["long"]
    cache = RollbackCache(target.model, max_draft=3)
    drafter = zoo.Scripted([*prompt, *text], rate=0.6)
    run = Run(target, cache, drafter, Fixed(9), Request(prompt, 30), PhaseTimer())
    assert [token for tokens in run.tokens() for token in tokens] == text[:30]
    assert max(run.stats.lengths) == 3


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "lookup", "model", "mtp", "dflash"])
def test_ten_answers_of_smollm2_are_mlx_lms(kind, smollm2):
    from benchmarks import harness
    from benchmarks.parity import real_prompts, session

    loaded = session(kind)
    for text in real_prompts(10):
        prompt = harness.rendered(loaded.tokenizer, text)
        expected = parity.mlx_lm_tokens(loaded.target, prompt, 24)
        run = harness.timed(harness.ours(loaded), prompt, 24)
        rounds = [Round(*passed) for passed in run.outcome.passes]
        found = parity.difference(loaded.target, prompt, expected, run.tokens, rounds)
        assert found is None or found.exact, f"{text!r}: {found}"
