import itertools

import pytest

from llm_specdec.bench.runs import perform
from llm_specdec.bench.store import Store
from tests.support.scripted_bench import SEED, Scripted, plan, progress


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "bench.db")


def bench(store, engine, **options):
    made = plan(**options)
    return perform(made, engine, store, progress(made.steps)[0])


def test_the_seeds_row_is_adopted_with_its_figures(store):
    found = bench(store, Scripted(SEED))
    none, qwen = found["cases"][0]["configs"]
    assert none["decode_tps"]["runs"] == pytest.approx([16.9, 16.0, 17.2], abs=1e-3)
    assert none["decode_tps"]["mean"] == pytest.approx(16.7, abs=1e-3)
    assert none["gain"] is None and none["parity"] is None
    assert int(qwen["gain"]["decode_tps"]["mean_pct"]) == 131
    # The order turns round in round 2, so B's runs are dealt out in order all the same.
    assert qwen["decode_tps"]["median"] == pytest.approx(39.7, abs=1e-3)
    assert qwen["parity"]["status"] == "identical"
    assert found["verdict"]["status"] == "adopted" and not found["partial"]


def test_parity_comes_before_any_timed_run_and_runs_interleave(store):
    engine = Scripted(SEED)
    bench(store, engine)
    assert engine.calls[:2] == [("greedy", "none"), ("greedy", "qwen")]
    order = [config for _, config, *_ in engine.calls[2:]]
    assert order == ["none", "qwen", "qwen", "none", "none", "qwen"]


def test_a_gain_below_the_gate_at_one_context_is_vetoed(store):
    rates = {
        ("none", 4096): [20.0] * 3, ("qwen", 4096): [20.3] * 3,
        ("none", 16384): [10.0] * 3, ("qwen", 16384): [12.61] * 3,
    }  # fmt: skip
    verdict = bench(store, Scripted(rates), contexts=(4096, 16384))["verdict"]
    assert verdict["status"] == "vetoed"
    assert verdict["reasons"] == ["+1.5% at 4096 tokens is below the gate of 15%"]
    assert [round(row["gain_pct"], 1) for row in verdict["gains"]] == [1.5, 26.1]


def test_broken_parity_stops_the_bench_before_any_speed(store):
    engine = Scripted(SEED, outputs={"qwen": [1, 9, 3]})
    found = bench(store, engine)
    assert found["verdict"]["status"] == "broken"
    assert not [call for call in engine.calls if call[0] == "timed"]
    parity = found["cases"][0]["configs"][1]["parity"]
    assert (parity["position"], parity["gap"]) == (1, 0.2)
    assert parity["sha256_a"] != parity["sha256_b"]


def test_a_tie_goes_on_and_is_shown(store):
    found = bench(store, Scripted(SEED, outputs={"qwen": [1, 9, 3]}, gap=0.6))
    assert found["cases"][0]["configs"][1]["parity"]["status"] == "tie"
    assert found["verdict"]["status"] == "adopted"


def test_an_interrupted_bench_keeps_its_runs_and_adopts_nothing(store):
    found = bench(store, Scripted(SEED, interrupt_after=3))
    assert found["partial"] and found["verdict"]["status"] == "undecided"
    none, qwen = found["cases"][0]["configs"]
    assert len(none["decode_tps"]["runs"]) + len(qwen["decode_tps"]["runs"]) == 3
    assert Store.bench(store, found["id"])["partial"] == 1


def test_a_bench_interrupted_before_its_first_run_can_still_be_shown(store):
    found = bench(store, Scripted(SEED, interrupt_after=0))
    assert found["cases"][0]["configs"][0]["decode_tps"] is None
    assert found["cases"][0]["configs"][1]["gain"]["decode_tps"] is None


def test_warm_runs_report_ttft_and_end_to_end_beside_the_cold_ttft(store):
    rates = {name: [20.0] * 4 for name in ("none", "qwen")}
    found = bench(store, Scripted(rates), mode="warm")
    for config in found["cases"][0]["configs"]:
        assert config["decode_tps"] is None
        assert config["ttft_ms"]["median"] == 100.0
        assert config["cold_ttft_ms"]["median"] == 1000.0
        assert len(config["end_to_end_tps"]["runs"]) == 3
    assert found["verdict"]["status"] == "measured"


def test_lanes_name_the_lane_to_use(store):
    lanes = ("none", "lookup:4", "qwen:auto")
    rates = {"none": [10.0] * 3, "lookup:4": [12.0] * 3, "qwen:auto": [11.0] * 3}
    verdict = bench(store, Scripted(rates), configs=lanes, mode="lanes")["verdict"]
    assert (verdict["status"], verdict["config"]) == ("recommended", "lookup:4")
    slow = {**rates, "lookup:4": [9.0] * 3, "qwen:auto": [8.0] * 3}
    verdict = bench(store, Scripted(slow), configs=lanes, mode="lanes")["verdict"]
    assert verdict["config"] == "none"


@pytest.mark.parametrize("mode", ["cold", "lanes", "warm"])
def test_an_interrupted_bench_of_any_kind_says_so(store, mode):
    found = bench(store, Scripted(SEED, interrupt_after=1), mode=mode)
    assert found["verdict"]["status"] == "undecided"
    assert found["verdict"]["reasons"] == ["the bench was interrupted"]


def test_progress_tells_the_time_left_by_the_steps_so_far():
    ticks = itertools.count(0, 30)
    made, told = progress(4, lambda: next(ticks))
    for text in ("a", "b", "c"):
        made.step(text)
    assert told == ["1/4 a", "2/4 b, about 1:30 left", "3/4 c, about 1:00 left"]
