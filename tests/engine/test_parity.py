"""Greedy output equals mlx-lm's plain path, token for token (the counts: benchmarks.parity)."""

import pytest

from tests import zoo
from tests.engine import parity


def a_part(family):
    """Each lane once; prompts, transforms and draft lengths take turns from family to family."""
    shift = list(zoo.FAMILIES).index(family)
    for i, lane in enumerate(parity.LANES):
        prompt = list(parity.PROMPTS)[(i + shift) % 2]
        recipe = list(parity.RECIPES)[(i + shift // 2) % 4]
        length = parity.LENGTHS[(i + 3 * shift) % 4] if lane != "none" else 0
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
def test_greedy_text_is_the_plain_paths_in_every_combination(family):
    outcomes = [parity.run(case) for case in parity.cases([family])]
    assert not [o for o in outcomes if o.verdict == "broken"]


def test_a_difference_that_is_no_tie_counts_as_broken():
    case = parity.Case("llama", "none", "plain", 0, "short")
    assert parity.Outcome(case, 0, 0).verdict == "identical"
    assert parity.Outcome(case, 0, 0, differs_at=3, gap=parity.TIE / 2).verdict == "tie"
    assert parity.Outcome(case, 0, 0, differs_at=3, gap=parity.TIE * 2).verdict == "broken"


def test_every_combination_is_counted_once():
    found = list(parity.cases())
    assert len(found) == len(set(found)) == len(zoo.FAMILIES) * 2 * 4 * (1 + 5 * 4)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "lookup", "model"])
def test_ten_answers_of_smollm2_are_mlx_lms(kind, smollm2):
    from benchmarks import harness
    from benchmarks.parity import real_prompts

    loaded = harness.smol(kind)
    for text in real_prompts(10):
        prompt = harness.rendered(loaded.tokenizer, text)
        expected = parity.mlx_lm_tokens(loaded.target, prompt, 24)
        got = harness.timed(harness.ours(loaded), prompt, 24).tokens
        if got != expected:
            at, gap = parity.first_difference(loaded.target, prompt, expected, got)
            assert gap <= parity.TIE, f"{text!r}: token {at}, top-2 gap {gap}"
