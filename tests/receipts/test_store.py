import json
import sqlite3
import subprocess
import sys

import llm
import pytest
import sqlite_utils
from llm.migrations import MIGRATIONS, ensure_migrations_table, migrate

from llm_specdec.errors import LogError
from llm_specdec.receipts import acceptance, ensure_view, latest, runs
from tests.support.receipts import Logging, log, specdec


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logs.db"


def rows(path, sql):
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    return [dict(row) for row in db.execute(sql)]


# As the design lists them; what came later stands behind them.
DESIGNED = (
    "turn_id thread_id datetime_utc model pairing profile lane lane_state prompt_tokens "
    "cached_tokens completion_tokens rounds drafted accepted acceptance_rate "
    "mean_acceptance_length load_ms restore_ms prefill_ms draft_ms verify_ms replay_ms "
    "commit_ms other_ms ttft_ms wall_ms prefill_tps decode_tps end_to_end_tps finish_reason "
    "completion_sha256 peak_memory_bytes"
)
ADDED = "reasoning_tokens worker_resident queued_ms draft_tokens lane_reason engine"  # since then


def test_the_view_gives_one_flat_row_a_run(path):
    turn = log(path, "qwen/reason", profile="reason")
    assert ensure_view(path)
    (row,) = rows(path, "select * from specdec_runs")
    assert " ".join(row) == f"{DESIGNED} {ADDED}"
    assert (row["turn_id"], row["model"], row["profile"]) == (turn, "qwen/reason", "reason")
    receipt = specdec()
    assert row["decode_tps"] == receipt["rates"]["decode_tps"]
    assert row["completion_sha256"] == receipt["completion_sha256"]
    assert row["lane"] == "dflash" and row["lane_state"] == "drafting"
    assert row["prefill_ms"] == 10970.8 and row["accepted"] == 131


@pytest.mark.parametrize("made", [0, 8, len(MIGRATIONS) - 1])
def test_llms_own_tables_are_left_to_llm(path, made):
    """Two processes that make them leave a file that neither can mend."""
    assert not ensure_view(path) and not path.exists()
    db = sqlite_utils.Database(path)
    ensure_migrations_table(db)
    for migration in MIGRATIONS[:made]:
        migration(db)
        db["_llm_migrations"].insert({"name": migration.__name__, "applied_at": ""})
    before = "\n".join(sqlite3.connect(path).iterdump())
    assert not ensure_view(path)
    assert "\n".join(sqlite3.connect(path).iterdump()) == before
    migrate(db)
    assert ensure_view(path)
    log(path)
    assert len(rows(path, "select * from specdec_runs")) == 1


MAKES_VIEWS = """
import sys, time
from llm_specdec.receipts import ensure_view
print("ready", flush=True)
while not ensure_view(sys.argv[1]):
    time.sleep(0.001)
"""
MIGRATES = """
import sqlite_utils, sys
from llm.migrations import migrate
print("ready", flush=True)
sys.stdin.read()
migrate(sqlite_utils.Database(sys.argv[1]))
"""


def test_commands_that_begin_at_once_leave_a_whole_database(path):
    sources = [MIGRATES, *[MAKES_VIEWS] * 3]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", source, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for source in sources
    ]
    for process in processes:
        assert process.stdout and process.stdout.readline() == b"ready\n"
    for process in processes:
        process.communicate(timeout=120)
    assert [process.returncode for process in processes] == [0] * 4
    log(path)
    assert len(rows(path, "select * from specdec_runs")) == 1


def test_the_view_of_another_version_is_replaced(path):
    log(path)
    sqlite3.connect(path).execute("create view specdec_runs as select 1 as old")
    assert ensure_view(path)
    assert "decode_tps" in rows(path, "select * from specdec_runs")[0]


def test_the_view_outlives_a_rebuilt_table(path):
    log(path)
    ensure_view(path)
    sqlite_utils.Database(path)["turns"].transform(rename={"options_json": "options_json2"})
    assert len(rows(path, "select * from specdec_runs")) == 1


def test_turns_of_other_models_are_left_out_even_with_broken_json(path):
    log(path)
    for other in (None, {"usage": 1}, {"rate": float("nan")}, {"specdec": 3}):
        response = Logging("other", other).prompt("x")
        response.text()
        response.log_to_db(sqlite_utils.Database(path))
    ensure_view(path)
    assert len(rows(path, "select * from specdec_runs")) == 1
    assert len(runs(path)) == 1


def test_text_that_llm_condensed_comes_back_whole(path):
    said = "a system prompt that the answer repeats word for word, sixty-four characters and more"
    log(path, text=said, sampling={"system": said, "temperature": 0.5})
    assert '{"$"' in rows(path, "select response_json from turns")[0]["response_json"]
    (run,) = runs(path)
    assert run.specdec["sampling"] == {"system": said, "temperature": 0.5}
    assert rows(path, "select decode_tps from specdec_runs")[0]["decode_tps"] > 35


def test_runs_come_newest_last_and_by_model(path):
    turns = [log(path, model) for model in ("a", "b", "a", "b")]
    assert [run.turn_id for run in runs(path)] == turns
    assert [run.turn_id for run in runs(path, 2)] == turns[2:]
    assert [run.turn_id for run in runs(path, 10**20)] == turns
    assert [run.turn_id for run in runs(path, 1, "a")] == [turns[2]]
    assert latest(path, "a") == runs(path)[2]
    assert latest(path, turns[0]) == runs(path)[0]
    assert latest(path, "c") is None


def test_reading_makes_the_view_where_it_is_missing(path):
    log(path)
    runs(path)
    assert len(rows(path, "select * from specdec_runs")) == 1


def test_no_database_and_an_empty_one_have_no_runs(path):
    assert runs(path) == [] and latest(path, "a") is None
    assert not path.exists()
    path.touch()
    assert runs(path) == []
    sqlite3.connect(path).execute("create table turns (id)")
    assert runs(path) == []


def test_a_file_that_is_no_database_is_said_to_be_none(path):
    path.write_text("not a database, " * 100)
    with pytest.raises(LogError, match="cannot be read"):
        runs(path)
    assert ensure_view(path) is False


def test_a_model_logged_by_llm_itself_is_found(path):
    model = Logging("fake", {"specdec": specdec()})
    conversation = llm.Conversation(model=model)
    for text in ("one", "two"):
        response = conversation.prompt(text)
        response.text()
        response.log_to_db(sqlite_utils.Database(path))
    first, second = runs(path)
    assert first.thread_id == second.thread_id
    assert first.prompt != second.prompt
    json.dumps(first.as_json(), allow_nan=False)


def test_acceptance_counts_a_pairings_drafted_runs_by_position(path):
    log(path)
    log(path, pairing="another")
    log(path, rounds=2, drafted=3, accepted=1, by_length=[0, 1, 1], by_position=[1])
    assert acceptance(path, "qwen") == [(46, 52), (35, 41), (25, 30), (16, 20), (10, 13)]
    assert acceptance(path, "nobody") == acceptance(path.with_name("none.db"), "qwen") == []


def test_runs_that_lookup_helped_out_say_nothing_of_the_drafter(path):
    log(path, by_source={"dflash": (40, 100, 60), "lookup-long": (10, 77, 71)})
    assert acceptance(path, "qwen") == []
    log(path, by_source={"dflash": (48, 170, 126), "lookup-long": (2, 7, 5)})
    assert acceptance(path, "qwen")[0] == (45, 50)
