import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from llm_specdec.receipts import Lane
from tests.support.command_line import specdec, write_registry
from tests.support.receipts import log


@pytest.fixture
def path(llm_user):
    return llm_user / "logs.db"


def test_logs_prints_one_line_a_run_newest_last(path):
    first, second = log(path, "qwen"), log(path, "qwen/reason")
    lines = specdec("logs").stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("181 tokens · decode 35.8 tok/s · end-to-end 11.3 tok/s (prefill")
    assert lines[0].endswith(f" · qwen · {first}")
    assert lines[1].endswith(f" · qwen/reason · {second}")


def test_logs_as_json_have_the_designs_keys(path, tmp_path):
    turn = log(tmp_path / "other.db", "qwen")
    log(tmp_path / "other.db", "other")
    result = specdec("logs", "-m", "qwen", "-d", str(tmp_path / "other.db"), "--json")
    (row,) = json.loads(result.stdout)
    assert list(row) == ["turn_id", "thread_id", "datetime_utc", "model", "specdec"]
    assert row["turn_id"] == turn


def test_an_absent_database_is_an_empty_list_and_is_not_made(path):
    result = specdec("logs", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert specdec("logs").stdout == ""
    assert not path.exists()


def test_a_model_without_runs_is_named(path):
    write_registry('[pairings.other]\ntarget = "/t"\n')
    log(path, "qwen")
    done = specdec("logs", "-m", "other")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "other: no runs of this model are logged here yet.\n"


@pytest.mark.parametrize(
    ("typed", "words"),
    [("qwenn", "did you mean qwen?"), ("othr", "did you mean other?"), ("z", "llm specdec list")],
)
def test_a_model_that_nobody_knows_is_a_usage_error_naming_near_ones(path, typed, words):
    write_registry('[pairings.other]\ntarget = "/t"\n')
    log(path, "qwen")
    done = specdec("logs", "-m", typed)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.error


def test_the_line_shows_loading_before_the_model(path):
    turn = log(path)
    cached = log(path, phases_ms={"load": 20.0})
    first, second = specdec("logs").stdout.splitlines()
    assert first.endswith(f"other=4504.9ms] · load 0.9 s · qwen · {turn}")
    assert second.endswith(f"ms] · qwen · {cached}")


def test_a_switched_off_pairing_says_off_and_why(path):
    log(path, lane=Lane("none", "off", "pairing disabled: by hand"), drafted=0, accepted=0)
    assert " · off: pairing disabled: by hand · " in specdec("logs").stdout


def rates(path, *decode_tps):
    """Runs of 100 tokens at these decode rates; their turn ids."""
    return [
        log(path, completion_ids=range(100), ttft_ms=1000.0, wall_ms=1000 + 100_000 / rate)
        for rate in decode_tps
    ]


def ids(*arguments):
    return [row["turn_id"] for row in json.loads(specdec("logs", *arguments, "--json").stdout)]


def test_sort_gives_the_highest_last(path):
    slow, fast, middle = rates(path, 10, 30, 20)
    assert ids("--sort", "decode") == [slow, middle, fast]
    assert ids("--sort", "wall", "-n", "2") == [middle, slow]
    assert ids() == [slow, fast, middle]


def test_lane_and_since_choose_runs_and_then_all_are_shown(path):
    drafted = rates(path, *range(10, 15))
    alone = log(path, lane=Lane("none", "off"), drafted=0, accepted=0)
    db = sqlite3.connect(path)
    old = (datetime.now(UTC) - timedelta(hours=30)).isoformat()
    db.execute("update turns set datetime_utc = ? where id = ?", (old, drafted[0]))
    db.commit()
    assert ids("--lane", "none") == [alone]
    assert ids("--since", "1h", "--lane", "dflash") == drafted[1:]
    assert ids("--since", "2d", "--lane", "dflash") == drafted
    assert ids("--since", old[:10]) == [*drafted, alone]
    assert ids("--since", "1d", "-n", "1") == [alone]
    assert len(ids()) == 3


@pytest.mark.parametrize("when", ["yesterday", "1y", "", "2026-13-01", "999999w"])
def test_a_time_that_is_none_is_a_usage_error(path, when):
    done = specdec("logs", "--since", when)
    assert done.exit_code == 2
    assert "is no time: give 1h, 2d or a date" in done.error


def test_a_turn_id_may_be_shortened_at_either_end(path):
    first, second = log(path), log(path)
    assert ids(first) == [first]
    assert ids(f"…{second[-6:]}", first[:-1] + "…") == [second, first]
    done = specdec("logs", first[:5])
    assert (done.exit_code, done.stdout) == (2, "")
    assert first in done.error and second in done.error
    assert specdec("logs", "zzzzz").exit_code == 1
    assert specdec("logs", second[-3:]).exit_code == 1


def test_the_table_fits_eighty_columns_and_its_turns_can_be_asked_for(path):
    name = "a-long-name-of-a-pairing/with-a-long-profile"
    turns = [log(path, name), log(path, lane=Lane("none", "off"), drafted=0, accepted=0)]
    head, *rows, units = specdec("logs", "--table").stdout.splitlines()
    assert max(map(len, [head, *rows])) <= 80
    assert [row.split()[3] for row in rows] == ["dflash", "off"]
    assert rows[0].split()[-5:] == ["181", "35.8", "11.3", "11.0s", "74%"]
    assert [ids(row.split()[0]) for row in rows] == [[turn] for turn in turns]
    assert units == "rates in tok/s; accepted: of drafted"


def test_stats_are_medians_a_model_and_lane_and_leave_warm_runs_out_of_ttft(path):
    rates(path, 10, 30, 20)
    log(path, cached_tokens=2149, completion_ids=range(100), ttft_ms=10.0, wall_ms=2510.0)
    log(path, "other", lane=Lane("none", "off"), drafted=0, accepted=0)
    first, second = json.loads(specdec("logs", "--stats", "--json").stdout)
    assert (first["model"], first["lane"], first["runs"], first["warm"]) == ("qwen", "dflash", 4, 1)
    assert first["decode_tps"] == pytest.approx(25)
    assert first["end_to_end_tps"] == pytest.approx(100 / 6, abs=1e-3)
    assert first["ttft_ms"] == 1000
    assert first["acceptance_rate"] == pytest.approx(131 / 177)
    assert (second["model"], second["lane"], second["acceptance_rate"]) == ("other", "none", None)
    lines = specdec("logs", "--stats").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["qwen", "dflash", "4", "1", "400", "25.0", "16.7", "1.0s", "74%"]


def test_a_file_that_is_no_database_is_one_line(path):
    path.write_text("no database " * 200)
    result = specdec("logs")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1


def test_absurd_counts_are_usage_errors(path):
    assert specdec("logs", "-n", "-1").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["turn", "-n", "3", "--lane", "mtp"], "a TURN is one run: leave -n and --lane out"),
        (["--stats", "--table"], "--stats has a table of its own: leave --table out"),
    ],
)
def test_options_that_would_be_ignored_are_refused(path, arguments, said):
    done = specdec("logs", *arguments)
    assert (done.exit_code, done.error) == (2, f"Error: {said}")
