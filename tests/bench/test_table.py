import pytest

from llm_specdec.bench import table
from llm_specdec.bench.runs import perform
from llm_specdec.bench.store import Store
from tests.support.scripted_bench import SEED, Scripted, plan, progress


def bench(tmp_path, engine, **options):
    made = plan(**options)
    return perform(made, engine, Store(tmp_path / "bench.db"), progress()[0])


@pytest.fixture
def found(tmp_path):
    return bench(tmp_path, Scripted(SEED))


def test_the_table_lists_every_run_beside_mean_and_median(found):
    text = table.text(found)
    assert "decode      [16.9, 16.0, 17.2] mean 16.7, median 16.9 tok/s" in text
    assert "decode      [35.8, 40.6, 39.7] mean 38.7, median 39.7 tok/s" in text
    assert "gain        +134.9% (means +131.7%, runs +108.1% to +153.8%)" in text
    assert text.endswith("adopted: +134.9% at 2150 tokens; the gate is 15%")
    rules = "3 runs each, interleaved, concurrency 1, streaming, at most 512 new tokens"
    assert text.startswith(f"qwen against the target alone\n{rules}\n\n")


def test_the_target_alone_is_called_so_everywhere(found):
    for text in (table.text(found), table.markdown(found)):
        assert "target alone" in text and "none" not in text
    nothing = {**found, "verdict": {"status": "recommended", "config": "none", "gains": {},
                                    "reasons": []}}  # fmt: skip
    assert table.verdict(nothing) == "use the target alone: no lane gains here"


def test_the_conditions_say_what_other_processes_used(tmp_path):
    engine, store = Scripted(SEED), Store(tmp_path / "bench.db")
    found = perform(plan(), engine, store, progress()[0], lambda: 0.61)
    assert "- load: 0.2 before the bench, other processes used 61% of the cores meanwhile" in (
        table.markdown(found)
    )


def test_the_table_keeps_to_80_columns(found):
    assert max(map(len, table.text(found).splitlines())) <= 80


def test_a_swallowed_gain_is_noted(tmp_path):
    rates = {"none": [10.0, 14.0, 11.0], "qwen": [12.0, 13.0, 16.0]}
    text = table.text(bench(tmp_path, Scripted(rates)))
    assert "the spread swallows it" in text
    assert "undecided: the spread swallows +18.2% at 2150 tokens" in text


def test_a_broken_lane_says_where_and_how_far(tmp_path):
    engine = Scripted(SEED, outputs={"qwen": [1, 9, 3]})
    text = table.text(bench(tmp_path, engine))
    assert "parity broken: position 1, top-2 gap 0.2" in text
    assert text.endswith("broken: greedy output differs from the target's own")


def test_warm_tables_show_ttft_cold_and_warm_and_no_decode_rate(tmp_path):
    rates = {name: [20.0] * 4 for name in ("none", "qwen")}
    found = bench(tmp_path, Scripted(rates), mode="warm")
    text = table.text(found)
    assert text.startswith("qwen against the target alone, warm\n")
    every = "[100.0, 100.0, 100.0] mean 100.0, median 100.0 ms"
    cold = "1000.0 ms, warm is 0.100 of it"
    assert f"TTFT        {every}\n    cold TTFT   {cold}\n" in text
    assert f"| {every}; cold {cold} |" in table.markdown(found)
    assert "decode" not in text


def test_markdown_holds_what_a_reader_needs_to_repeat_it(found):
    text = table.markdown(found)
    assert "| qwen | [35.8, 40.6, 39.7] mean 38.7, median 39.7 |" in text
    for part in ("M4 Max", "mlx 0.32.4", "fingerprint 0123456789ab", "512 new tokens"):
        assert part in text


def test_lanes_end_with_the_lane_to_use(tmp_path):
    rates = {"none": [10.0] * 3, "lookup:4": [12.0] * 3}
    found = bench(tmp_path, Scripted(rates), configs=("none", "lookup:4"), mode="lanes")
    assert table.verdict(found) == "use lookup:4: +20.0% decode, median over the cases"


def test_a_lane_within_the_spread_is_recommended_with_that_doubt(tmp_path):
    rates = {"none": [10.0, 14.0, 11.0], "lookup:4": [12.0, 13.0, 16.0]}
    found = bench(tmp_path, Scripted(rates), configs=("none", "lookup:4"), mode="lanes")
    assert table.verdict(found).endswith("at 2150 tokens of code the spread swallows the gain")


def test_a_lane_that_was_parked_says_so(found):
    assert "parked" not in table.text(found)
    found["cases"][0]["configs"][1]["lane_states"] = ["drafting", "parked"]
    assert "lane        parked at the end of a run" in table.text(found)
