import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_specdec.receipts import line
from llm_specdec.receipts.payload import PHASES, longest_repeated_6gram, sha256_of
from tests.support.receipts import run, specdec

KEYS = {
    "version", "pairing", "profile", "lane", "tokens", "draft", "phases_ms", "ttft_ms", "wall_ms",
    "synced_rounds", "sync_every", "rates", "sampling", "deviations", "completion_sha256",
    "longest_repeated_6gram", "finish_reason", "peak_memory_bytes",
}  # fmt: skip


def inside(phases):
    return sum(ms for name, ms in phases.items() if name != "load")


def test_the_seeds_run_shows_both_of_its_rates():
    receipt = specdec()
    assert receipt["rates"]["decode_tps"] == pytest.approx(35.8, abs=0.01)
    assert receipt["rates"]["end_to_end_tps"] == pytest.approx(11.3, abs=0.01)
    assert receipt["rates"]["prefill_tps"] == pytest.approx(2150 / 10.9708, abs=0.001)
    assert receipt["draft"]["acceptance_rate"] == pytest.approx(0.740, abs=0.0005)
    assert receipt["draft"]["mean_acceptance_length"] == pytest.approx(1 + 131 / 50)


def test_the_log_line_is_the_designs():
    assert line(specdec()) == (
        "181 tokens · decode 35.8 tok/s · end-to-end 11.3 tok/s (prefill is 68% of wall)"
        " · acceptance 74.0% of drafted · phases[prefill=10970.8ms draft=232.9ms verify=244.8ms"
        " replay=24.1ms commit=49.2ms other=4504.9ms]"
    )


def test_the_keys_are_the_designs():
    assert set(specdec()) == KEYS
    assert list(specdec()["phases_ms"]) == list(PHASES)


def test_cached_tokens_do_not_count_as_prefilled():
    rates = specdec(cached_tokens=2000, phases_ms={"prefill": 500.0})["rates"]
    assert rates["prefill_tps"] == pytest.approx(300)


def test_figures_without_a_base_are_null():
    receipt = specdec(completion_ids=[7], rounds=0, drafted=0, accepted=0, ttft_ms=5.0, wall_ms=5.0)
    assert receipt["rates"]["decode_tps"] is None
    assert receipt["draft"]["acceptance_rate"] is None
    assert receipt["draft"]["mean_acceptance_length"] is None
    assert "decode – tok/s" in line(receipt)


def test_a_run_without_time_or_tokens_is_still_finite():
    receipt = specdec(completion_ids=[], ttft_ms=0.0, wall_ms=0.0, phases_ms={})
    assert set(receipt["rates"].values()) == {None}
    line(receipt)


def test_an_estimated_split_that_overshoots_is_scaled_to_the_wall():
    phases = specdec(
        wall_ms=1000.0, ttft_ms=400.0, phases_ms={"prefill": 400.0, "draft": 300.0, "verify": 500.0}
    )["phases_ms"]
    assert phases["prefill"] == 400.0
    assert phases["verify"] / phases["draft"] == pytest.approx(5 / 3, abs=1e-4)
    assert inside(phases) == pytest.approx(1000.0)


times = st.floats(0, 1e6)


@given(times, st.dictionaries(st.sampled_from(PHASES[:-1]), times))
def test_phases_but_load_add_up_to_wall(spare, phases):
    prompt = phases.get("restore", 0) + phases.get("prefill", 0)
    wall = prompt + spare
    found = specdec(wall_ms=wall, ttft_ms=prompt, phases_ms=phases)["phases_ms"]
    assert inside(found) == pytest.approx(wall, rel=1e-6, abs=0.01)


def test_only_plain_finite_values_leave():
    receipt = specdec(
        sampling={"temperature": np.float32(0.5), "top_p": math.nan, "stop": ("a", "b")},
        peak_memory_bytes=np.int64(12),
        deviations=[{"setting": "top_k", "value": math.inf}],
    )
    json.dumps(receipt, allow_nan=False)
    assert receipt["sampling"] == {"temperature": 0.5, "top_p": None, "stop": ["a", "b"]}
    assert receipt["peak_memory_bytes"] == 12


def test_the_hash_is_over_ids_as_little_endian_uint32():
    assert sha256_of([1, 256]) == hashlib.sha256(bytes([1, 0, 0, 0, 0, 1, 0, 0])).hexdigest()


def test_loops_show_in_the_6gram_count():
    assert longest_repeated_6gram(list(range(5))) == 0
    assert longest_repeated_6gram(list(range(50))) == 1
    assert longest_repeated_6gram([*range(6), 99, *range(6)]) == 2
    assert longest_repeated_6gram([1, 2, 3] * 10) == 9


def test_a_lane_that_drafted_nothing_says_why():
    off = specdec(lane=run().lane.__class__("mtp", "off", "-o draft false"), drafted=0, accepted=0)
    assert "nothing drafted (mtp off: -o draft false)" in line(off)
    none = specdec(lane=run().lane.__class__("none", "off"), drafted=0, accepted=0)
    assert "no drafter" in line(none)


def test_thinking_is_counted_within_the_completion():
    receipt = specdec(reasoning_tokens=40)
    assert receipt["tokens"]["reasoning"] == 40
    assert receipt["tokens"]["completion"] == specdec()["tokens"]["completion"]
    assert line(receipt).startswith("181 tokens (40 of thinking) · decode")
    assert line(specdec()).startswith("181 tokens · decode")
