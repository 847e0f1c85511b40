import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_specdec.bench import rules
from llm_specdec.bench.rules import Case
from llm_specdec.engine.replay import Difference
from tests.support.receipts import specdec

# The founding note's rows: drafted runs, baseline runs, the gain of means it states (in whole
# percent, rounded down), and the gain of medians worked out by hand.
SEED_ROWS = [
    ([35.8, 40.6, 39.7], [16.9, 16.0, 17.2], 131, 100 * (39.7 / 16.9 - 1)),
    ([23.8, 25.7, 19.4], [18.5, 17.9, 19.1], 24, 100 * (23.8 / 18.5 - 1)),
]


def gain_of(baseline, drafted):
    found = rules.gain(rules.figures(baseline), rules.figures(drafted))
    assert found is not None
    return found


@pytest.mark.parametrize(("drafted", "baseline", "means", "medians"), SEED_ROWS)
def test_the_seeds_rows_come_out_as_stated(drafted, baseline, means, medians):
    gain = gain_of(baseline, drafted)
    assert int(gain["mean_pct"]) == means
    assert gain["median_pct"] == pytest.approx(medians)
    assert not gain["swallowed"]


def test_figures_list_every_run_beside_mean_and_median():
    assert rules.figures([3.0, 1.0, 8.0]) == {"runs": [3.0, 1.0, 8.0], "mean": 4.0, "median": 3.0}
    assert rules.figures([None, 2.0]) == {"runs": [None, 2.0], "mean": 2.0, "median": 2.0}
    assert rules.figures([None]) is None


def test_overlapping_runs_swallow_the_gain():
    gain = gain_of([10.0, 14.0, 11.0], [12.0, 13.0, 16.0])
    assert gain["median_pct"] == pytest.approx(100 * (13 / 11 - 1))
    assert (gain["low_pct"], gain["high_pct"]) == (
        pytest.approx(100 * (12 / 14 - 1)),
        pytest.approx(60.0),
    )
    assert gain["swallowed"]


def test_the_order_turns_round_each_round():
    assert list(rules.interleaved(["A", "B"], 3)) == [
        (0, "A"), (0, "B"), (1, "B"), (1, "A"), (2, "A"), (2, "B"),
    ]  # fmt: skip


@given(st.integers(1, 5), st.integers(1, 6))
def test_every_configuration_runs_once_a_round(configurations, rounds):
    names = [str(number) for number in range(configurations)]
    order = list(rules.interleaved(names, rounds))
    assert sorted(order) == sorted((number, name) for number in range(rounds) for name in names)


def test_a_summary_adds_counts_before_it_divides():
    first = specdec(rounds=10, drafted=10, accepted=9, by_length=[0, 10], by_position=[9])
    second = specdec(rounds=30, drafted=90, accepted=31, by_length=[0, 0, 0, 30],
                     by_position=[15, 10, 6])  # fmt: skip
    found = rules.summary([first, second])
    assert found["acceptance_rate"] == pytest.approx(40 / 100)
    assert found["mean_acceptance_length"] == pytest.approx(1 + 40 / 40)
    assert found["accepted_by_position"] == pytest.approx([24 / 40, 10 / 30, 6 / 30])
    assert sum(found["phases_share"].values()) == pytest.approx(1)


def test_warm_runs_report_no_decode_rate():
    found = rules.summary([specdec(cached_tokens=2000)], warm=True)
    assert found["decode_tps"] is None
    assert found["end_to_end_tps"]["runs"] and found["ttft_ms"]["runs"]


def test_parity_names_the_first_difference_and_its_gap():
    assert rules.parity(None) == {"status": "identical", "position": None, "gap": None}
    for exact, status in ((True, "tie"), (False, "broken")):
        found = rules.parity(Difference(position=1, gap=0.6, exact=exact))
        assert found == {"status": status, "position": 1, "gap": 0.6}


def gain(median, low=None, high=None):
    """A gain whose runs all gain about as much, unless told."""
    if median is None:
        return None
    low, high = (median - 0.1 if low is None else low), (median + 0.1 if high is None else high)
    return {"median_pct": median, "low_pct": low, "high_pct": high}


def verdict(*gains, statuses=("identical",), gate=15.0, partial=False, others=0.0):
    """gains: (context, median) or (context, median, low, high)."""
    cases = [(Case("code", context), gain(*figures)) for context, *figures in gains]
    return rules.verdict(cases, statuses, gate, partial, others=others)


def test_the_gate_must_be_reached_at_every_context():
    assert verdict((4096, 15.0), (16384, 40.0))["status"] == "adopted"
    vetoed = verdict((4096, 1.5), (16384, 26.1))
    assert vetoed["status"] == "vetoed"
    assert vetoed["reasons"] == ["+1.5% at 4096 tokens is below the gate of 15%"]


def test_a_context_counts_with_the_median_of_its_cases():
    found = verdict((2150, 5.0), (2150, 20.0), (2150, 90.0))
    assert [(row["context"], row["gain_pct"]) for row in found["gains"]] == [(2150, 20.0)]
    assert found["status"] == "adopted"


def test_nothing_is_adopted_without_parity_or_after_an_interrupt():
    assert verdict((2150, 90.0), statuses=["identical", "broken"])["status"] == "broken"
    assert verdict((2150, 90.0), partial=True)["status"] == "undecided"
    assert verdict((2150, None))["status"] == "undecided"
    assert verdict()["status"] == "undecided"
    assert verdict((2150, 90.0), statuses=["tie"])["status"] == "adopted"


def test_a_spread_that_holds_nothing_gained_decides_neither_way():
    found = verdict((2150, -8.6, -21.9, 5.8))
    assert found["status"] == "undecided"
    assert found["reasons"] == [
        "the spread swallows -8.6% at 2150 tokens (runs -21.9% to +5.8%, and no run reaches 15%): "
        "try more --runs, or a quieter machine"
    ]
    assert verdict((2150, 18.0, -1.0, 30.0))["status"] == "undecided"
    assert verdict((2150, 18.0, 1.0, 30.0))["status"] == "adopted"
    assert verdict((2150, -8.6, -21.9, -0.1))["status"] == "vetoed"


def test_one_of_several_cases_that_is_swallowed_leaves_the_context_decided():
    found = verdict((2150, 1.0, -3.0, 4.0), (2150, 20.0, 16.0, 25.0), (2150, 40.0, 30.0, 50.0))
    assert found["status"] == "adopted"
    (row,) = found["gains"]
    assert (row["low_pct"], row["high_pct"]) == (16.0, 25.0)


def test_a_machine_that_others_kept_busy_decides_neither_way():
    for figure in (90.0, -90.0):
        found = verdict((2150, figure), others=0.61)
        assert found["status"] == "undecided" and found["others_share"] == 0.61
        assert "other processes used 61% of the cores" in found["reasons"][0]
    assert verdict((2150, 90.0), others=0.2)["status"] == "adopted"
    assert verdict((2150, 90.0), others=0.61, statuses=["broken"])["status"] == "broken"


def test_without_a_gate_nothing_is_judged_but_broken_output():
    assert verdict((2150, 90.0), gate=None)["status"] == "measured"
    assert verdict((2150, 1.0, -3.0, 4.0), gate=None, others=0.9)["status"] == "measured"
    assert verdict((2150, 90.0), gate=None, statuses=["broken"])["status"] == "broken"
