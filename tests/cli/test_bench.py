import json
import sqlite3

import pytest

from llm_specdec import settings
from llm_specdec.bench import command, last_verdict, machine
from llm_specdec.bench.store import Store, default_path
from llm_specdec.console import notices
from llm_specdec.pairings import registry
from tests.support.command_line import specdec
from tests.support.scripted_bench import CONDITIONS, SEED, Scripted

TARGET, OTHER = "someone/Target-4bit", "someone/Other-4bit"
GOOD = SEED
BAD = {"none": [16.9, 16.0, 17.2], "qwen": [12.0, 12.5, 13.0]}


@pytest.fixture
def user(llm_user):
    with registry.edit() as document:
        document["pairings"] = {
            "qwen": {"target": TARGET, "drafter": "a/drafter", "kind": "dflash", "aliases": ["q"]},
            "plain": {"target": TARGET, "profiles": {"warm": {"temperature": 0.5}}},
            "other": {"target": OTHER},
        }
    return llm_user


def others(monkeypatch, before, meanwhile):
    """What other processes use of the cores, whatever they do."""
    notices.warn.cache_clear()
    monkeypatch.setattr(machine, "others_now", lambda: before)
    monkeypatch.setattr(machine.Watch, "others", lambda watch: meanwhile)


@pytest.fixture
def engine(monkeypatch):
    """Replaces the real engine by a scripted one, to be filled by the test."""
    scripted = Scripted({})

    def sessions(configs, max_tokens, keeps):
        scripted.configs = configs
        return scripted

    monkeypatch.setattr(command, "Sessions", sessions)
    others(monkeypatch, before=0.0, meanwhile=0.0)
    for module in (command, last_verdict):
        monkeypatch.setattr(module, "models", lambda pairing: CONDITIONS["models"])
    return scripted


def bench(*arguments):
    return specdec("bench", *arguments)


def run(engine, rates, *arguments):
    engine.rates = {key: list(values) for key, values in rates.items()}
    return bench("qwen", "--class", "code", *arguments)


def test_a_good_drafter_is_adopted_and_a_worse_one_vetoed_with_its_figures(user, engine):
    result = run(engine, BAD)
    assert result.exit_code == 1
    assert result.stdout.count("vetoed: -26.0% at 2150 tokens is below the gate of 15%") == 1
    assert result.stderr == (
        "qwen is switched off, its files are kept: "
        "llm specdec enable qwen --override 'why' undoes it\n"
    )
    pairing = registry.load().pairing("qwen")
    assert not pairing.enabled
    assert pairing.disabled_reason.startswith("vetoed by bench 1: -26.0% at 2150 tokens")
    assert run(engine, GOOD).exit_code == 0
    pairing = registry.load().pairing("qwen")
    assert pairing.enabled and pairing.disabled_reason == ""
    assert [row["verdict"]["status"] for row in Store().benches()] == ["vetoed", "adopted"]


def test_a_veto_is_overridden_with_a_reason_only_and_every_receipt_carries_it(user, engine):
    run(engine, BAD)
    refused = specdec("enable", "qwen")
    assert refused.exit_code == 1
    assert "-26.0% at 2150 tokens" in refused.stderr and "--override" in refused.stderr
    assert not registry.load().pairing("qwen").enabled
    done = specdec("enable", "qwen", "--override", "I know why")
    assert done.exit_code == 0
    pairing = registry.load().pairing("qwen")
    assert pairing.enabled
    (deviation,) = settings.resolve(pairing).deviations
    assert (deviation["setting"], deviation["reason"]) == ("draft", "I know why")


def test_what_broke_parity_stays_off_whatever_is_said(user, engine):
    engine.outputs = {"qwen": [9]}
    run(engine, GOOD)
    done = specdec("enable", "qwen", "--override", "please")
    assert done.exit_code == 1 and not registry.load().pairing("qwen").enabled


def test_list_shows_what_the_last_bench_said_and_that_it_is_stale(user, engine):
    run(engine, BAD)
    listed = specdec("list", "--json")
    found = {row["name"]: row["bench"] for row in json.loads(listed.stdout)}
    assert found["plain"] is None
    assert (found["qwen"]["bench"], found["qwen"]["status"]) == (1, "vetoed")
    assert found["qwen"]["stale"] == []
    with sqlite3.connect(default_path()) as db:
        db.execute(
            "update benches set conditions = replace(conditions, ?, ?)", ('"mlx": "', '"mlx": "0')
        )
    listed = specdec("list")
    assert "qwen: the bench of" in listed.stderr and "is stale: mlx was 0" in listed.stderr


def test_a_pairing_without_a_drafter_has_nothing_to_gate(user, engine):
    result = bench("plain")
    assert result.exit_code == 2
    assert "plain has no drafter, there is nothing to gate: try --lanes" in result.stderr
    assert Store().benches() == []


def test_the_gate_can_be_set(user, engine):
    assert run(engine, GOOD, "--gate", "200").exit_code == 1
    assert run(engine, BAD, "--gate", "0").exit_code == 1
    for absurd in ("-1", "nan", "inf", "1e999"):
        assert run(engine, GOOD, "--gate", absurd).exit_code == 2


def test_broken_parity_disables_the_pairing(user, engine):
    engine.outputs = {"qwen": [9]}
    result = run(engine, GOOD)
    assert result.exit_code == 1 and "broken: greedy output" in result.stdout
    assert result.stderr == "qwen is switched off, its files are kept\n"
    assert "broken by bench 1" in registry.load().pairing("qwen").disabled_reason


def test_a_spread_that_swallows_the_gain_is_undecided_and_changes_nothing(user, engine):
    before = registry.default_path().read_text()
    result = run(engine, {"none": [10.0, 11.0, 14.0], "qwen": [12.0, 13.0, 16.0]})
    assert result.exit_code == 3
    assert result.stdout.count("undecided: the spread swallows +18.2%") == 1
    assert result.stderr == "bench 1 is kept, nothing is changed\n"
    assert registry.default_path().read_text() == before


@pytest.mark.parametrize("rates", [GOOD, BAD])
def test_a_busy_machine_is_warned_of_and_decides_nothing(user, engine, monkeypatch, rates):
    others(monkeypatch, before=0.7, meanwhile=0.8)
    before = registry.default_path().read_text()
    result = run(engine, rates, "--json")
    assert result.exit_code == 3
    assert "Warning: other processes use 70% of the cores" in result.stderr
    verdict = json.loads(result.stdout)["verdict"]
    assert verdict["status"] == "undecided" and verdict["others_share"] == 0.8
    assert registry.default_path().read_text() == before


@pytest.mark.parametrize("rates", [GOOD, BAD])
def test_no_gate_measures_only(user, engine, rates):
    before = registry.default_path().read_text()
    result = run(engine, rates, "--no-gate")
    assert result.exit_code == 0
    assert "measured, not judged: " in result.stdout
    assert "nothing is changed" in result.stderr
    assert registry.default_path().read_text() == before
    assert bench("show", "1").exit_code == bench("list").exit_code == 0


def test_the_json_says_what_the_verdict_changed(user, engine):
    assert json.loads(run(engine, BAD, "--json").stdout)["verdict"]["applied"] == {
        "pairing": "qwen", "enabled": False, "was_enabled": True,
    }  # fmt: skip
    assert "qwen stays switched off" in run(engine, BAD).stderr
    assert run(engine, GOOD).stderr == "qwen drafts from now on\n"
    assert run(engine, GOOD).stderr == "qwen goes on drafting\n"


def test_an_interrupted_bench_leaves_the_pairing_as_it_is(user, engine):
    engine.left = 2
    result = run(engine, BAD)
    assert result.exit_code == 1 and "interrupted" in result.stderr
    assert registry.load().pairing("qwen").enabled
    assert Store().benches()[0]["partial"] == 1


def test_a_disabled_pairing_drafts_in_its_bench(user, engine):
    with registry.change("qwen") as table:
        table["enabled"] = False
    run(engine, GOOD)
    assert [config.lane.kind for config in engine.configs] == ["none", "dflash"]
    assert registry.load().pairing("qwen").enabled


def test_json_is_the_whole_bench_and_show_gives_it_again(user, engine):
    ran = json.loads(run(engine, GOOD, "--json").stdout)
    assert json.loads(bench("show", "1", "--json").stdout) == ran
    assert ran["conditions"]["configs"][0]["name"] == "none"
    assert ran["conditions"]["configs"][1]["settings"]["temperature"] == 0.0
    assert ran["cases"][0]["prompt_tokens"] <= 2150
    assert ran["cases"][0]["prompt_sha256"]


def test_list_names_every_bench_and_its_verdict(user, engine):
    assert json.loads(bench("list", "--json").stdout) == []
    run(engine, BAD)
    text = bench("list").stdout
    assert "qwen against the target alone" in text and "vetoed: -26.0% at 2150 tokens" in text


def test_a_report_is_written_and_redacted(user, engine, tmp_path):
    page = tmp_path / "bench.md"
    result = run(engine, GOOD, "--report", str(page), "--redact")
    assert result.exit_code == 0
    for text in (page.read_text(), result.stdout):
        assert "Secret" not in text and "qwen " not in text
    assert "pairing-1 against the target alone" in result.stdout


def test_a_page_is_written(user, engine, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "bench.html"
    run(engine, GOOD, "--report", str(page))
    assert "<svg" in page.read_text()


def test_against_another_pairing_of_the_same_target_disables_nothing(user, engine):
    engine.rates = {"plain": [16.9] * 3, "qwen": [12.0] * 3}
    result = bench("qwen", "--class", "code", "--against", "plain")
    assert result.exit_code == 1
    assert registry.load().pairing("qwen").enabled


def test_lanes_try_every_drafter_of_the_target_at_every_length(user, engine, monkeypatch):
    monkeypatch.setattr(command, "own_kinds", lambda pairing: ["mtp"])
    names = [f"{lane}:{k}" for lane in ("lookup", "qwen", "mtp") for k in (1, 2, 4, 8, "auto")]
    engine.rates = {"none": [10.0], "lookup:4": [13.0]} | {
        name: [9.0] for name in names if name != "lookup:4"
    }
    result = bench("qwen", "--lanes", "--class", "code", "--runs", "1")
    assert result.exit_code == 0
    assert [config.name for config in engine.configs] == ["none", *names]
    lengths = {config.values["draft_tokens"] for config in engine.configs}
    assert lengths == {1, 2, 4, 8, "auto"}
    assert "use lookup:4: +30.0% decode" in result.stdout
    assert registry.load().pairing("qwen").enabled


@pytest.mark.parametrize(("lane", "off"), [("lookup:2", []), ("second:2", ["second"])])
def test_a_broken_lane_disables_the_pairing_whose_drafter_it_is(
    user, engine, monkeypatch, lane, off
):
    with registry.edit() as document:
        document["pairings"]["second"] = {"target": TARGET, "drafter": "b/d", "kind": "model"}
    monkeypatch.setattr(command, "own_kinds", lambda pairing: [])
    engine.outputs = {lane: [9]}
    assert bench("qwen", "--lanes", "--class", "code").exit_code == 1
    found = registry.load().pairings.values()
    assert [pairing.name for pairing in found if not pairing.enabled] == off


def test_a_prompt_file_brings_its_own_cases(user, engine, tmp_path):
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"id": "a", "prompt": "one two three"}\n{"id": "b", "prompt": "four"}')
    engine.rates = {"none": [10.0] * 6, "qwen": [20.0] * 6}
    ran = json.loads(bench("qwen", "--prompt-file", str(prompts), "--json").stdout)
    assert [case["text"] for case in ran["cases"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "no pairing 'nobody'"),
        (["qwen", "--against", "other"], "different targets"),
        (["qwen", "--against", "qwen"], "against itself"),
        (["qwen", "--against", "q"], "against itself"),
        (["qwen", "--against", "plain/warm"], "differ in drafter and temperature: one change"),
        (["qwen", "--runs", "0"], "--runs"),
        (["qwen", "--max-tokens", "1"], "--max-tokens"),
        (["qwen", "--context", "5"], "holds no question"),
        (["qwen", "--lanes", "--warm"], "--lanes"),
        (["qwen", "--report", "x.pdf"], ".html or .md"),
        (["qwen", "--report", "/nowhere/x.md"], "no folder"),
        (["qwen", "--prompt-file", __file__, "--context", "9"], "--prompt-file"),
    ],
)
def test_bad_arguments_exit_2_with_a_clear_line_and_store_nothing(user, engine, arguments, said):
    result = bench(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert Store().benches() == []


def test_a_context_beyond_the_models_is_refused_before_a_text_is_made_for_it(user, engine):
    engine.encode = pytest.fail
    result = bench("qwen", "--context", "64", "--context", "99999999")
    assert result.exit_code == 1
    assert "--context: 99999999 prompt tokens and 256 new ones are more than" in result.stderr


def test_a_prompt_beyond_the_context_is_named(user, engine, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("word " * 20_000)
    result = bench("qwen", "--prompt-file", str(path))
    assert result.exit_code == 1 and "mine: 33334 prompt tokens" in result.stderr


def test_what_cannot_run_is_refused_before_anything_is_stored(user, engine):
    result = bench("qwen", "--context", "19900", "--class", "code")
    assert result.exit_code == 1 and "more than the context of 20000" in result.stderr
    assert Store().benches() == []


def test_a_warm_bench_runs_cold_once_and_decides_nothing(user, engine):
    rates = {"none": [20.0] * 3, "qwen": [9.0] * 3}
    result = run(engine, rates, "--warm", "--runs", "2")
    assert result.exit_code == 0
    assert "measured, not judged: warm runs decide nothing" in result.stdout
    assert [call[1:] for call in engine.calls if call[0] == "timed"] == [
        ("none", 0, False), ("qwen", 0, False), ("none", 0, True), ("qwen", 0, True),
        ("qwen", 1, True), ("none", 1, True),
    ]  # fmt: skip
    assert registry.load().pairing("qwen").enabled


def test_a_target_alone_may_be_benched_warm(user, engine):
    engine.rates = {"plain": [20.0] * 2}
    result = bench("plain", "--warm", "--runs", "1", "--class", "code")
    assert result.exit_code == 0
    assert "warm is 0.100 of it" in result.stdout


def test_redacted_lanes_name_no_pairing_and_no_drafter(user, engine, monkeypatch):
    with registry.edit() as document:
        document["pairings"]["second"] = {"target": TARGET, "drafter": "b/d", "kind": "model"}
    monkeypatch.setattr(command, "own_kinds", lambda pairing: [])
    names = [f"{lane}:{k}" for lane in ("lookup", "qwen", "second") for k in (1, 2, 4, 8, "auto")]
    engine.rates = {"none": [10.0]} | {name: [12.0] for name in names}
    result = bench("qwen", "--lanes", "--class", "code", "--runs", "1", "--redact", "--json")
    ran = json.loads(result.stdout)
    assert list(ran["conditions"]["models"]) == ["target", "drafter pairing-1", "drafter pairing-2"]
    for secret in ("qwen", "second", "Secret"):
        assert secret not in result.stdout.replace("qwen3_5", "")


@pytest.mark.parametrize("number", ["7", "99999999999999999999"])
def test_an_unknown_bench_is_one_line(user, number):
    result = bench("show", number)
    assert result.exit_code == 1 and f"no bench {number}:" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-gate", "--gate", "5"], "--no-gate gives no verdict: leave --gate out"),
        (["--warm", "--gate", "15"], "--warm decides nothing: leave --gate out"),
    ],
)
def test_a_gate_where_nothing_is_decided_is_refused(user, engine, options, said):
    done = run(engine, GOOD, *options)
    assert (done.exit_code, done.error) == (2, f"Error: {said}")
