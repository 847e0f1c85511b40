"""The bench's own seam to the engine, on the demo model."""

import dataclasses

import pytest

from llm_specdec.bench import sessions
from llm_specdec.bench.runs import Greedy
from llm_specdec.bench.sessions import Sessions
from llm_specdec.pairings.registry import Pairing, Profile

TARGET = "someone/target"
PAIRING = Pairing("p", TARGET, "a/drafter", "model", enabled=False, disabled_reason="vetoed")
WITH_PENALTY = Profile({"repetition_penalty": 1.15, "temperature": 0.7})


def test_the_baseline_is_the_target_alone_under_the_same_settings():
    pairing = dataclasses.replace(PAIRING, profiles={"hot": WITH_PENALTY})
    alone, own = sessions.alone(pairing, "hot"), sessions.config("p/hot", pairing, "hot")
    assert (alone.lane.kind, own.lane.kind) == ("none", "model")
    differing = {name for name, value in own.values.items() if alone.values[name] != value}
    assert differing == {"draft"}


def test_lanes_share_the_settings_of_the_first_pairing():
    pairing = dataclasses.replace(PAIRING, settings={"top_k": 5})
    other = Pairing("q", TARGET, "b/drafter", "dflash", drafter_bits=4, settings={"top_k": 9})
    found = sessions.lanes([pairing, other], None)
    assert {config.values["top_k"] for config in found} == {5}
    last = found[-1].pairing
    assert (last.kind, last.drafter, last.drafter_bits) == ("dflash", "b/drafter", 4)


@pytest.mark.parametrize(
    ("other", "options", "changed"),
    [
        ({}, {}, []),
        ({}, {"draft_tokens": 4}, ["draft_tokens"]),
        ({"drafter": "b/drafter"}, {"draft_tokens": 4}, ["drafter"]),
        ({"drafter_bits": 4}, {"temperature": 1.0, "kv_bits": 8}, ["drafter", "temperature",
                                                                  "kv_bits"]),
        ({}, {"seed": 3, "stop": ["x"]}, []),  # a bench has its own, and none
    ],
)  # fmt: skip
def test_changes_name_the_drafter_and_the_settings_that_a_bench_goes_by(other, options, changed):
    one = sessions.config("p", PAIRING, None)
    two = sessions.config("q", dataclasses.replace(PAIRING, **other), None, **options)
    assert sessions.changes(one, two) == changed


@pytest.mark.real
def test_a_bench_run_of_the_demo_model_is_a_whole_receipt(smollm2):
    pairing = Pairing("small", str(smollm2 / "smollm2"), str(smollm2 / "drafters/model"), "model")
    pinned = sessions.config("small", pairing, None, draft_tokens=2)  # "auto" may park it
    engine = Sessions([sessions.alone(pairing, None), pinned], max_tokens=12)
    prompt = engine.prompt("What is the capital of France?")
    own, other = engine.greedy("none", prompt), engine.greedy("small", prompt)
    assert engine.difference(prompt, own, other) is None
    assert list(other.said) == list(own.said)
    alone, drafted = (engine.timed(name, prompt, 0, False) for name in ("none", "small"))
    assert list(alone.completion_ids) == list(own.said)
    assert (alone.lane.kind, alone.drafted) == ("none", 0)
    assert (drafted.lane.kind, drafted.lane.state) == ("model", "drafting")
    assert drafted.drafted > 0 and drafted.wall_ms > drafted.ttft_ms > 0
    said = [*own.said[:-1], 7]
    wrong = Greedy(dataclasses.replace(drafted, completion_ids=said), said)
    found = engine.difference(prompt, own, wrong)
    assert found and not found.exact and found.position == len(own.said) - 1


@pytest.mark.real
def test_warm_runs_begin_with_what_the_cold_run_of_their_configuration_kept(smollm2):
    pairing = Pairing("look", str(smollm2 / "smollm2"), "lookup", "lookup")
    configs = [sessions.alone(pairing, None), sessions.config("look", pairing, None)]
    engine = Sessions(configs, max_tokens=6, keeps=True)
    prompt = engine.prompt("Count: one, two, three, four, five, six, seven, eight, nine, ten.")
    for name in ("none", "look"):
        cold = engine.timed(name, prompt, 0, warm=False)
        warm = [engine.timed(name, prompt, 0, warm=True) for _ in range(2)]
        assert cold.cached_tokens == 0
        assert [run.cached_tokens for run in warm] == [len(prompt) - 1] * 2
        assert [run.completion_ids for run in warm] == [cold.completion_ids] * 2
        assert all(run.phases_ms["restore"] > 0 for run in warm)
    other = engine.prompt("Name six fruits that are not red, and six that are, in two lists.")
    assert engine.timed("look", other, 0, warm=False).cached_tokens == 0
    assert engine.timed("look", other, 0, warm=True).cached_tokens == len(other) - 1
