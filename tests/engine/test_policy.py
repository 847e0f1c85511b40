"""The adaptive draft length against simulated acceptance and costs. No clock anywhere."""

import random
from itertools import pairwise

import pytest

from llm_specdec.engine.costs import Costs, interpolated
from llm_specdec.engine.policy import PROBE_EVERY, Acceptance, Auto, Fixed, Limits

LONGEST = 8
FLAT = dict.fromkeys(range(1, 10), 1.0)
LINEAR = {w: 1 + 0.15 * (w - 1) for w in range(1, 10)}
CLIFF_2 = {w: 1.0 if w < 2 else 1.9 for w in range(1, 10)}
CLIFF_6 = {w: 1 + 0.05 * (w - 1) if w < 6 else 2.5 for w in range(1, 10)}
CURVES = {"flat": FLAT, "linear": LINEAR, "cliff at 2": CLIFF_2, "cliff at 6": CLIFF_6}
DRAFT = {k: 0.05 + 0.02 * k for k in range(1, 9)}


def costs(verify, draft=DRAFT):
    return Costs((128, 2048), (verify, verify), {"drafter": (draft, draft)})


def stationary(rate):
    return lambda token, rng: rng.random() < rate


def switching(token, rng):
    return rng.random() < (0.9 if (token // 300) % 2 else 0.1)


def alternating(token, rng):
    return rng.random() < (0.9 if (token // 12) % 2 else 0.2)


TRACES = {
    "never": stationary(0.0),
    "0.2": stationary(0.2),
    "0.5": stationary(0.5),
    "0.8": stationary(0.8),
    "0.97": stationary(0.97),
    "switching": switching,
    "alternating": alternating,
}


def simulate(policy, priced, accepts, tokens=2000, seed=1):
    """(time, lengths asked for round by round)."""
    rng = random.Random(seed)
    done, time, lengths = 0, 0.0, []
    while done < tokens:
        pick = policy.pick(["drafter"], done)
        length = pick.length
        accepted = 0
        while accepted < length and accepts(done + accepted, rng):
            accepted += 1
        policy.observe("drafter", length, accepted, pick)
        lengths.append(length)
        time += priced.round("drafter", length, done)
        done += accepted + 1
    return time / done, lengths


def best_fixed(priced, accepts):
    return min(simulate(Fixed(k), priced, accepts)[0] for k in range(LONGEST + 1))


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("curve", CURVES)
def test_regret_against_the_best_fixed_length_is_small(trace, curve, capsys):
    priced = costs(CURVES[curve])
    best = best_fixed(priced, TRACES[trace])
    mine, _ = simulate(Auto(priced, Limits({"drafter": LONGEST})), priced, TRACES[trace])
    regret = mine / best - 1
    with capsys.disabled():
        print(f"\n  {trace:>11} {curve:<10} regret {100 * regret:5.1f} %", end="")
    assert regret < (0.10 if trace == "alternating" else 0.06)


@pytest.mark.parametrize("curve", ["linear", "cliff at 2", "flat"])
def test_a_losing_drafter_is_parked_within_32_rounds_and_costs_little(curve):
    priced = costs(CURVES[curve])
    policy = Auto(priced, Limits({"drafter": LONGEST}))
    cost, lengths = simulate(policy, priced, stationary(0.0), tokens=400)
    assert policy.state == "parked"
    assert sum(length > 1 for length in lengths[32:]) == 0
    assert sum(length > 0 for length in lengths[32:]) <= len(lengths) / PROBE_EVERY[0] + 1
    assert cost <= 1 / 0.97


def test_a_parked_drafter_comes_back_within_64_rounds_when_it_starts_to_pay():
    priced = costs(LINEAR)
    policy = Auto(priced, Limits({"drafter": LONGEST}))
    simulate(policy, priced, stationary(0.0), tokens=600)
    _, lengths = simulate(policy, priced, stationary(0.9), tokens=400)
    back = next(i for i in range(len(lengths)) if min(lengths[i : i + 8]) > 1)
    assert back <= 64


def test_a_settled_length_does_not_oscillate():
    priced = costs(LINEAR)
    policy = Auto(priced, Limits({"drafter": LONGEST}))
    simulate(policy, priced, stationary(0.7), tokens=300)
    _, lengths = simulate(policy, priced, stationary(0.7), tokens=1500)
    changes = sum(a != b for a, b in pairwise(lengths))
    assert changes / len(lengths) < 0.1


def test_the_length_shrinks_as_context_makes_verifying_dearer():
    far = {w: 1 + 0.6 * (w - 1) for w in range(1, 10)}
    priced = Costs((128, 2048), (LINEAR, far), {"drafter": (DRAFT, DRAFT)})
    chosen = []
    for context in (128, 2048):
        policy = Auto(priced, Limits({"drafter": LONGEST}), history=[(80, 100)] * 8)
        chosen.append(policy.pick(["drafter"], context).length)
    assert chosen[0] > chosen[1] >= 0


def test_to_ask_changes_nothing():
    """The loop asks ahead, and once more when the round begins."""
    policies = [Auto(costs(LINEAR), Limits({"good": LONGEST, "bad": 4})) for _ in range(2)]
    rng = random.Random(5)
    for length in range(100, 400):
        sources = ["good", "bad"] if rng.random() < 0.3 else ["good"]
        for _ in range(rng.randrange(3)):
            policies[1].pick(sources[-1:], rng.randrange(2000))
        first, second = (policy.pick(sources, length) for policy in policies)
        assert first == second
        accepted = rng.randrange(first.length + 1)
        for policy in policies:
            policy.observe(first.source, first.length, accepted, first)


def test_sources_are_estimated_apart():
    priced = costs(LINEAR)
    policy = Auto(priced, Limits({"good": LONGEST, "bad": LONGEST}))
    for _ in range(60):
        policy.observe("good", 4, 4, policy.pick(["good"], 200))
        policy.observe("bad", 2, 0, policy.pick(["bad"], 200))
    assert policy.pick(["good"], 200).length > 2
    assert policy.pick(["bad"], 200).length == 0
    assert policy.pick(["bad", "good"], 200)[:2] == policy.pick(["good"], 200)[:2]


def test_a_long_match_replaces_a_weak_drafter_until_it_is_wrong():
    priced = costs(LINEAR)
    policy = Auto(priced, Limits({"drafter": 4, "lookup-long": 8}, {"lookup-long": 0.8}))
    for _ in range(20):
        policy.observe("drafter", 2, 1, policy.pick(["drafter"], 200))
    pick = policy.pick(["drafter", "lookup-long"], 200)
    assert (pick.source, pick.length > 2) == ("lookup-long", True)
    for _ in range(4):
        policy.observe("lookup-long", pick.length, 0, pick)
    assert policy.pick(["drafter", "lookup-long"], 200).source == "drafter"
    for _ in range(200):  # forgotten after a while, and given another chance
        policy.observe("drafter", 2, 1, policy.pick(["drafter"], 200))
    assert policy.pick(["drafter", "lookup-long"], 200).source == "lookup-long"


def test_no_source_drafts_longer_than_its_limit():
    policy = Auto(costs(FLAT), Limits({"drafter": 3, "lookup-long": 8}, {"lookup-long": 0.8}))
    for _ in range(30):
        policy.observe("drafter", 3, 3, policy.pick(["drafter"], 200))
    assert policy.longest == 8
    assert policy.pick(["drafter"], 200)[:2] == ("drafter", 3)


def test_same_observations_same_lengths():
    priced = costs(CLIFF_6)
    first, second = (
        simulate(Auto(priced, Limits({"drafter": LONGEST})), priced, switching, seed=3)
        for _ in range(2)
    )
    assert first == second


def test_history_is_a_prior_that_evidence_overrules():
    hopeful = Acceptance([(90, 100)] * 4)
    assert hopeful.expected(4)[-1] > Acceptance().expected(4)[-1]
    for _ in range(40):
        hopeful.update(4, 0)
    assert hopeful.expected(1)[1] < 1.2


def test_a_position_never_drafted_is_believed_like_the_last_one_that_was():
    seen = Acceptance()
    for _ in range(200):
        seen.update(1, 1)
    rates = [b - a for a, b in pairwise(seen.expected(3))]
    assert rates[0] > 0.9
    assert rates[1] / rates[0] == pytest.approx(rates[0], abs=0.01)


def test_curves_are_linear_between_and_beyond_measured_points():
    curve = {1: 1.0, 4: 4.0, 8: 6.0}
    assert [interpolated(curve, x) for x in (1, 2, 6, 10)] == [1.0, 2.0, 5.0, 7.0]


def test_costs_survive_being_stored():
    priced = costs(CLIFF_2)
    import json

    assert Costs.from_json(json.loads(json.dumps(priced.as_json()))) == priced


def test_a_source_that_its_kind_does_not_list_is_named():
    auto = Auto(costs(FLAT), Limits({"drafter": LONGEST}, {}))
    with pytest.raises(LookupError, match="source 'guess' is none of its kind's sources: drafter"):
        auto.pick(["guess"], 128)


def test_between_contexts_costs_are_drawn_as_a_line_and_never_fall():
    flat = {1: 1.0, 2: 2.0}
    priced = Costs((100, 200, 400), (flat, {1: 3.0, 2: 4.0}, {1: 2.0, 2: 8.0}), {})
    found = {context: priced.round("lookup", 1, context) for context in (50, 100, 150, 300, 500)}
    assert found == {50: 2.0, 100: 2.0, 150: 3.0, 300: 6.0, 500: 10.0}
    assert priced.round("lookup", 0, 400) == 3.0  # no shorter than at 200
    assert Costs.from_json(priced.as_json() | {}) == priced
    with pytest.raises(ValueError, match="a curve for each context"):
        Costs.from_json(priced.as_json() | {"contexts": [100, 200]})
