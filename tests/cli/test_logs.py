import json

import pytest

from tests.support.command_line import specdec
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
    log(path, "qwen")
    assert specdec("logs", "-m", "nobody").stderr == (
        "nobody: no runs of this model are logged here yet.\n"
    )


def test_a_file_that_is_no_database_is_one_line(path):
    path.write_text("no database " * 200)
    result = specdec("logs")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1


def test_absurd_counts_are_usage_errors(path):
    assert specdec("logs", "-n", "-1").exit_code == 2
