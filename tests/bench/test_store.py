import copy
import sqlite3
from typing import Any

import pytest
import sqlite_utils

from llm_specdec.bench.rules import Case
from llm_specdec.bench.store import Asked, Store, migrations, stale
from llm_specdec.errors import LogError
from tests.support.receipts import specdec

CASE = Case("code", 2150)
ASKED = Asked("qwen", "reason", "none", "cold", 15.0)
CONDITIONS: dict[str, dict[str, Any]] = {
    "machine": {"chip": "M4 Max", "cores": 16, "memory_bytes": 2**37, "system": "Darwin 26.1"},
    "versions": {"mlx": "0.32.4", "mlx-lm": "0.32.2", "python": "3.12.1"},
    "models": {"target": {"fingerprint": "t1"}, "drafter": {"fingerprint": "d1"}},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "specdec" / "bench.db"


def test_what_was_written_is_read_back(path):
    store = Store(path)
    bench = store.begin(ASKED, CONDITIONS)
    parity = {"status": "tie", "position": 4, "gap": 1e-4, "threshold": 1e-3}
    store.add_parity(bench, "qwen", CASE, {**parity, "sha256_a": "a", "sha256_b": "b"})
    store.add_run(bench, "none", CASE, 0, False, specdec())
    store.finish(bench, {"status": "vetoed"}, partial=False)
    found = Store(path).bench(bench)
    assert found["conditions"] == CONDITIONS and found["verdict"] == {"status": "vetoed"}
    assert (found["pairing"], found["profile"], found["partial"]) == ("qwen", "reason", 0)
    (run,) = found["runs"]
    assert run["specdec"] == specdec() and run["text"] == "code" and run["context"] == 2150
    assert found["parities"][0]["gap"] == 1e-4


def test_a_bench_that_never_finished_stays_with_its_runs_as_partial(path):
    store = Store(path)
    bench = store.begin(ASKED, CONDITIONS)
    store.add_run(bench, "none", CASE, 0, False, specdec())
    (row,) = Store(path).benches()
    assert (row["partial"], row["verdict"]) == (1, None)
    assert len(store.bench(bench)["runs"]) == 1


def test_the_file_is_for_its_owner_only(path):
    Store(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_file_is_migrated_and_migrating_again_changes_nothing(path):
    path.parent.mkdir()
    path.touch()
    Store(path)
    Store(path)
    names = {migration.name for migration in migrations.applied(sqlite_utils.Database(path))}
    assert names == {"m001_create_tables"}


def test_a_file_that_is_no_database_and_an_unknown_bench_are_said_so(path):
    path.parent.mkdir()
    path.write_text("no database " * 100)
    with pytest.raises(LogError, match="bench history"):
        Store(path)
    path.unlink()
    with pytest.raises(LogError, match="no bench 7"):
        Store(path).bench(7)


def test_runs_can_be_asked_for_in_sql(path):
    store = Store(path)
    bench = store.begin(ASKED, CONDITIONS)
    store.add_run(bench, "none", CASE, 0, False, specdec())
    sql = "select avg(json_extract(specdec, '$.rates.decode_tps')) from runs"
    assert sqlite3.connect(path).execute(sql).fetchone()[0] == pytest.approx(35.8, abs=0.01)


def test_a_receipt_is_stale_when_files_versions_or_machine_change():
    assert stale(CONDITIONS, CONDITIONS) == []

    def changed(part, name, value):
        now = copy.deepcopy(CONDITIONS)
        now[part][name] = value
        return stale(CONDITIONS, now)

    assert changed("versions", "mlx", "0.33.0") == ["mlx was 0.32.4, is 0.33.0"]
    assert changed("versions", "python", "3.13.0") == []
    assert changed("machine", "system", "Darwin 26.2") == []
    assert changed("machine", "memory_bytes", 2**36) == ["another machine"]
    assert changed("models", "drafter", {"fingerprint": "d2"}) == ["the drafter's files changed"]
