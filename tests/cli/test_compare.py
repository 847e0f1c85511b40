import json

import pytest

from llm_specdec.bench.runs import perform
from llm_specdec.bench.store import Store
from llm_specdec.pairings import registry
from llm_specdec.receipts import Lane
from tests.support.command_line import specdec
from tests.support.receipts import log
from tests.support.scripted_bench import Scripted, plan, progress


@pytest.fixture
def path(llm_user):
    return llm_user / "logs.db"


def compare(*arguments):
    return specdec("compare", *arguments)


def baseline(path):
    return log(
        path,
        "qwen",
        lane=Lane("none", "off", "-o draft false"),
        completion_ids=list(range(167)),
        ttft_ms=12000.0,
        wall_ms=22000.0,
    )


def test_like_with_like_gives_the_gain(path):
    plain = baseline(path)
    drafted = log(path, "qwen")
    result = compare(plain, drafted)
    assert result.exit_code == 0
    assert "decode: B +114.4% against A (35.8 against 16.7 tok/s)" in result.stdout


def test_a_model_id_means_its_last_run(path):
    baseline(path)
    turn = log(path, "qwen")
    assert json.loads(compare("qwen", "qwen", "--json").stdout)["a"]["id"] == turn


def test_turn_ids_may_be_shortened_and_an_unclear_one_names_the_candidates(path):
    plain, drafted = baseline(path), log(path, "qwen")
    result = compare(plain[-8:], f"{drafted[:-1]}…@decode", "--json")
    assert [json.loads(result.stdout)[side]["id"] for side in "ab"] == [plain, drafted]
    unclear = compare(plain[:6], drafted)
    assert (unclear.exit_code, unclear.stdout) == (2, "")
    assert plain in unclear.error and drafted in unclear.error


def test_the_seeds_mix_up_exits_1_with_both_figures_of_both_runs(path):
    drafted, plain = log(path, "qwen"), baseline(path)
    result = compare(f"{drafted}@end-to-end", f"{plain}@decode")
    assert result.exit_code == 1
    for figure in ("decode 35.8", "end-to-end 11.3", "decode 16.7", "end-to-end 7.6"):
        assert figure in result.stdout
    assert len(result.stderr.splitlines()) == 1


def register(name, target):
    with registry.edit() as document:
        document.setdefault("pairings", {})[name] = {"target": target}


def test_pairings_of_one_target_compare_and_of_another_do_not(path):
    for name, target in (("a", "T"), ("b", "T"), ("c", "U")):
        register(name, target)
        log(path, name, pairing=name)
    assert compare("a", "b").exit_code == 0
    refused = compare("a", "c")
    assert refused.exit_code == 1 and "targets differ (T, U)" in refused.stderr
    log(path, "gone", pairing="gone")
    assert "not known whether" in compare("a", "gone").stderr


def test_bench_receipts_compare_too(path):
    store = Store(path.parent / "specdec" / "bench.db")
    rates = {"none": [16.9, 16.0, 17.2], "qwen": [35.8, 40.6, 39.7]}
    made = plan()
    perform(made, Scripted(rates), store, progress()[0])
    result = compare("bench:1:none", "bench:1")
    assert result.exit_code == 0
    assert "decode: B +134.9% against A (39.7 against 16.9 tok/s)" in result.stdout
    assert "it ran none, qwen" in compare("bench:1:other", "bench:1").stderr
    assert "no bench 9" in compare("bench:9", "bench:1").stderr


def test_a_bench_of_another_machine_is_refused_against_a_logged_run(path):
    perform(plan(), Scripted({"none": [1.0] * 3, "qwen": [1.0] * 3}),
            Store(path.parent / "specdec" / "bench.db"), progress()[0])  # fmt: skip
    register("qwen", "T")
    with registry.change("qwen") as table:
        table["fingerprints"] = {"target": "0123456789abcdef"}
    log(path, "qwen")
    assert "machines differ (M4 Max, 16 cores, 128 GiB" in compare("bench:1", "qwen").stderr


def test_no_line_is_wider_than_80_columns(path):
    drafted, plain = log(path, "qwen/a-profile-with-a-name", cached_tokens=9), baseline(path)
    shown = [compare(drafted, plain), compare(f"{drafted}@end-to-end", f"{plain}@decode")]
    lines = [line for result in shown for line in result.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    assert drafted in shown[0].stdout and "warm runs compare" in shown[0].stdout


def test_an_unknown_run_is_one_line(path):
    log(path)
    result = compare("qwen", "nobody")
    assert result.exit_code == 1
    assert "nobody" in result.stderr and len(result.stderr.splitlines()) == 1
