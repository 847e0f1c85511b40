"""`specdec/bench.db`: every bench, run by run, so that it can be read again and repeated.

benches   one row a bench: what was asked (pairing, profile, against, mode, gate_pct), when,
          whether it was cut short (partial), its verdict, and `conditions` (JSON): machine and
          state, versions, models, settings of each configuration, cases with prompt hashes
runs      one row a run: bench_id, config, text and context (the case), round, warm, `specdec`
          (JSON, the receipt as in llm's log)
parities  one row a configuration and case: status, position, gap, both SHA-256;
          older benches have a threshold of the gap

Rows are written as runs end: what was measured stays when a bench is interrupted.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlite_utils
from sqlite_utils import Migrations

from llm_specdec import files
from llm_specdec.bench.machine import identity
from llm_specdec.bench.rules import Case
from llm_specdec.errors import LogError

migrations = Migrations("llm_specdec.bench")


@migrations()  # type: ignore[untyped-decorator]
def m001_create_tables(db: Any) -> None:
    db["benches"].create(
        {
            "id": int,
            "datetime_utc": str,
            "pairing": str,
            "profile": str,
            "against": str,
            "mode": str,
            "gate_pct": float,
            "partial": int,
            "verdict": str,
            "conditions": str,
        },
        pk="id",
    )
    db["runs"].create(
        {
            "id": int,
            "bench_id": int,
            "config": str,
            "text": str,
            "context": int,
            "round": int,
            "warm": int,
            "specdec": str,
        },
        pk="id",
        foreign_keys=[("bench_id", "benches", "id")],
    )
    db["parities"].create(
        {
            "bench_id": int,
            "config": str,
            "text": str,
            "context": int,
            "status": str,
            "position": int,
            "gap": float,
            "threshold": float,
            "sha256_a": str,
            "sha256_b": str,
        },
        pk=("bench_id", "config", "text", "context"),
        foreign_keys=[("bench_id", "benches", "id")],
    )


@dataclass(frozen=True)
class Asked:
    """What a bench was asked to do. mode: cold | warm | lanes."""

    pairing: str
    profile: str | None
    against: str
    mode: str
    gate_pct: float | None  # None: measure only


def default_path() -> Path:
    import llm

    return Path(llm.user_dir(), "specdec", "bench.db")


class Store:
    """The database at `path`, made and brought up to date when opened.

    Raises LogError where the file is no database or cannot be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        path = path or default_path()
        try:
            files.make_private(path)
            self._db = sqlite_utils.Database(path)
            path.chmod(0o600)  # one of an older version, too
            migrations.apply(self._db)
        except (OSError, sqlite3.Error) as error:
            raise LogError(f"{path} cannot be used as the bench history: {error}") from error

    def begin(self, asked: Asked, conditions: Mapping[str, Any]) -> int:
        row = {
            "datetime_utc": datetime.now(UTC).isoformat(timespec="seconds"),
            "pairing": asked.pairing,
            "profile": asked.profile,
            "against": asked.against,
            "mode": asked.mode,
            "gate_pct": asked.gate_pct,
            "partial": 1,
            "verdict": None,
            "conditions": json.dumps(conditions),
        }
        bench_id: int = self._db["benches"].insert(row).last_pk
        return bench_id

    def add_run(
        self, bench_id: int, config: str, case: Case, number: int, warm: bool, specdec: Any
    ) -> None:
        self._db["runs"].insert(
            {
                "bench_id": bench_id,
                "config": config,
                **case._asdict(),
                "round": number,
                "warm": int(warm),
                "specdec": json.dumps(specdec, allow_nan=False),
            }
        )

    def add_parity(self, bench_id: int, config: str, case: Case, found: Mapping[str, Any]) -> None:
        row = {"bench_id": bench_id, "config": config, **case._asdict(), **found}
        self._db["parities"].insert(row)

    def finish(self, bench_id: int, verdict: Mapping[str, Any], partial: bool) -> None:
        changes = {"verdict": json.dumps(verdict), "partial": int(partial)}
        self._db["benches"].update(bench_id, changes)

    def rename(self, old: str, new: str) -> None:
        """The benches of a pairing go with its name; what they ran keeps the names it had."""
        with self._db.conn:
            self._db.execute("update benches set pairing = ? where pairing = ?", [new, old])

    def benches(self) -> list[dict[str, Any]]:
        """All benches without their runs, oldest first."""
        rows = self._db.query("select * from benches order by id")
        return [_read(row, "verdict", "conditions") for row in rows]

    def bench(self, bench_id: int) -> dict[str, Any]:
        """One bench with its `runs` and `parities`. Raises LogError for an unknown id."""
        wanted = [str(bench_id)]  # text, because SQLite takes no integer of any size
        found = list(self._db.query("select * from benches where id = ?", wanted))
        if not found:
            raise LogError(f"there is no bench {bench_id}: see llm specdec bench list")
        runs = self._db.query("select * from runs where bench_id = ? order by id", [bench_id])
        parities = self._db.query("select * from parities where bench_id = ?", [bench_id])
        return _read(found[0], "verdict", "conditions") | {
            "runs": [_read(row, "specdec") for row in runs],
            "parities": list(parities),
        }


def _read(row: Mapping[str, Any], *columns: str) -> dict[str, Any]:
    """`row` with its JSON columns read."""
    return dict(row) | {name: json.loads(row[name]) if row[name] else None for name in columns}


def stale(conditions: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What changed since a bench under `conditions`, in words; empty: it still holds.

    `now` has the same keys `machine`, `versions` and `models` (role → {fingerprint}).
    """
    changed = [
        f"{name} was {conditions['versions'].get(name)}, is {now['versions'].get(name)}"
        for name in ("mlx", "mlx-lm")
        if conditions["versions"].get(name) != now["versions"].get(name)
    ]
    if identity(conditions["machine"]) != identity(now["machine"]):
        changed.append("another machine")
    before, after = (
        {role: model["fingerprint"] for role, model in side["models"].items()}
        for side in (conditions, now)
    )
    changed += [
        f"the {role}'s files changed" for role in after if before.get(role) != after.get(role)
    ]
    return changed
