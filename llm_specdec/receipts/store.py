"""Receipts in llm's log: read from `turns.response_json`, and the view `specdec_runs` over it.

llm stores a string that repeats text of the turn (64 characters or more) as `{"$": …}`.
Numbers are never touched, so the view reads the column as it stands; where such a mark is in a
receipt, reading back lets llm resolve it.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llm_specdec.drafters.table import HELPER
from llm_specdec.errors import LogError, UsageError

# column of the view → place in the receipt, a JSON path: a hyphen in a key needs quotes
COLUMNS = {
    "pairing": "pairing",
    "profile": "profile",
    "lane": "lane.kind",
    "lane_state": "lane.state",
    "prompt_tokens": "tokens.prompt",
    "cached_tokens": "tokens.cached",
    "completion_tokens": "tokens.completion",
    "rounds": "draft.rounds",
    "drafted": "draft.drafted",
    "accepted": "draft.accepted",
    "acceptance_rate": "draft.acceptance_rate",
    "mean_acceptance_length": "draft.mean_acceptance_length",
    "load_ms": "phases_ms.load",
    "restore_ms": "phases_ms.restore",
    "prefill_ms": "phases_ms.prefill",
    "draft_ms": "phases_ms.draft",
    "verify_ms": "phases_ms.verify",
    "replay_ms": "phases_ms.replay",
    "commit_ms": "phases_ms.commit",
    "other_ms": "phases_ms.other",
    "ttft_ms": "ttft_ms",
    "wall_ms": "wall_ms",
    "prefill_tps": "rates.prefill_tps",
    "decode_tps": "rates.decode_tps",
    "end_to_end_tps": "rates.end_to_end_tps",
    "finish_reason": "finish_reason",
    "completion_sha256": "completion_sha256",
    "peak_memory_bytes": "peak_memory_bytes",
    "reasoning_tokens": "tokens.reasoning",
    "worker_resident": "worker.resident",
    "queued_ms": "worker.queued_ms",
    "draft_tokens": "sampling.draft_tokens",
    "lane_reason": "lane.reason",
    "engine": "engine.name",
}

# Another plugin's malformed JSON in one row must not break the query for all.
HAS_RECEIPT = (
    "case when json_valid(response_json) then json_type(response_json, '$.specdec') end = 'object'"
)

VIEW = "\n".join(
    [
        "CREATE VIEW specdec_runs as select",
        "  id as turn_id, thread_id, datetime_utc, model,",
        ",\n".join(
            f"  json_extract(response_json, '$.specdec.{place}') as {column}"
            for column, place in COLUMNS.items()
        ),
        f"from turns where {HAS_RECEIPT}",
    ]
)


# What runs can be put in order by → what to order by, the highest last.
SORTS = {
    "time": "id",
    **{
        name: f"json_extract(response_json, '$.specdec.{place}')"
        for name, place in {
            "decode": "rates.decode_tps",
            "end-to-end": "rates.end_to_end_tps",
            "wall": "wall_ms",
            "ttft": "ttft_ms",
            "load": "phases_ms.load",
            "prompt": "tokens.prompt",
            "tokens": "tokens.completion",
            "acceptance": "draft.acceptance_rate",
        }.items()
    },
}

SHORTEST = 4  # signs that a shortened turn id has at least

SELECT = f"""select id, thread_id, datetime_utc, model, response_json, parent_message_hash
from turns where {HAS_RECEIPT}"""


ACCEPTANCE = f"""select json_extract(response_json, '$.specdec.draft') from turns
where {HAS_RECEIPT} and json_extract(response_json, '$.specdec.pairing') = ?1
and json_extract(response_json, '$.specdec.draft.drafted') > 0
and (json_extract(response_json, '$.specdec.lane.kind') = ?3
  or json_extract(response_json, '$.specdec.draft.drafted')
    >= 10 * coalesce(json_extract(response_json, ?4), 0))
order by id desc limit ?2"""

MOST = 2**63 - 1  # rows that SQLite can be asked for


@dataclass(frozen=True)
class Logged:
    """A receipt as llm logged it. `prompt` is llm's hash of the messages that went in."""

    turn_id: str
    thread_id: str
    datetime_utc: str
    model: str
    specdec: dict[str, Any]
    prompt: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "turn_id": self.turn_id,
            "thread_id": self.thread_id,
            "datetime_utc": self.datetime_utc,
            "model": self.model,
            "specdec": self.specdec,
        }


def ensure_view(path: Path | str) -> bool:
    """Make the view `specdec_runs` in the log database at `path`. False where llm has not brought
    its tables up to date, and where the file cannot take a view (read only, locked, no database):
    it is made with a later run, and is no reason to lose an answer."""
    try:
        with closing(sqlite3.connect(_uri(path, "rw"), uri=True)) as db:
            if not _is_up_to_date(db):
                return False
            _make_view(db)
    except sqlite3.Error:
        return False
    return True


def runs(
    path: Path | str,
    n: int = 0,
    model: str | None = None,
    lane: str | None = None,
    since: datetime | None = None,
    sort: str = "time",
) -> list[Logged]:
    """The last `n` runs with a receipt (0: all), oldest first; `sort`, a key of SORTS: the `n`
    highest, the highest last.

    Of one `model` id, with the drafter kind `lane`, `since` a time; None: any. Empty where there
    is no database or llm has logged nothing in it. Makes the view where it is missing. Raises
    LogError for a file that is not a database.
    """
    with reading(path) as db:
        if db is None:
            return []
        rows = db.execute(
            f"""{SELECT} and (?1 is null or model = ?1) and (?2 is null or datetime_utc >= ?2)
            and (?3 is null or json_extract(response_json, '$.specdec.lane.kind') = ?3)
            order by {SORTS[sort]} desc, id desc limit ?4""",
            (model, since and since.astimezone(UTC).isoformat(), lane, min(n, MOST) or -1),
        ).fetchall()
    ensure_view(path)
    return [_logged(path, row) for row in reversed(rows)]


def models(path: Path | str) -> list[str]:
    """Model ids that have runs with a receipt."""
    with reading(path) as db:
        query = f"select distinct model from turns where {HAS_RECEIPT} order by model"
        return [] if db is None else [row[0] for row in db.execute(query)]


def acceptance(path: Path | str, pairing: str, n: int = 20) -> list[tuple[int, int]]:
    """(accepted, drafted) by position in a draft, over the last `n` drafted runs of a pairing;
    runs in which the helper drafted a tenth or more in the drafter's place do not count.

    Nothing where the log cannot be read: it only sharpens a guess.
    """
    helped = f'$.specdec.draft.by_source."{HELPER.helps.name}".drafted'
    asked = (pairing, n, HELPER.name, helped)
    try:
        with reading(path) as db:
            rows = [] if db is None else db.execute(ACCEPTANCE, asked).fetchall()
        drafts = [json.loads(row[0]) for row in rows]
    except (LogError, sqlite3.Error, ValueError):
        return []
    longest = max((len(draft["by_length"]) - 1 for draft in drafts), default=0)
    return [
        (
            sum(sum(draft["by_position"][i : i + 1]) for draft in drafts),
            sum(sum(draft["by_length"][i + 1 :]) for draft in drafts),
        )
        for i in range(longest)
    ]


def latest(path: Path | str, name: str) -> Logged | None:
    """The run with turn id `name`, else the last run of the model id `name`, else None."""
    with reading(path) as db:
        if db is None:
            return None
        row = db.execute(
            f"{SELECT} and (id = ?1 or model = ?1) order by id = ?1 desc, id desc limit 1",
            (name,),
        ).fetchone()
    return _logged(path, row) if row else None


def turn(path: Path | str, shortened: str) -> Logged | None:
    """The run whose turn id begins or ends so (ids of one day begin alike); None where none does.
    An ellipsis at either end is no part of it. Raises UsageError where several do."""
    text = shortened.strip("….").lower()
    if len(text) < SHORTEST or not text.isalnum():
        return None
    with reading(path) as db:
        query = f"{SELECT} and (id like ?1 || '%' or id like '%' || ?1) order by id"
        rows = [] if db is None else db.execute(query, (text,)).fetchall()
    if len(rows) > 1:
        *some, last = [row[0] for row in rows[:5]]
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        raise UsageError(
            f"{shortened!r} may be any of the turns {', '.join(some)} and {last}{more}: "
            "give more of its id"
        )
    return _logged(path, rows[0]) if rows else None


@contextmanager
def reading(path: Path | str) -> Iterator[sqlite3.Connection | None]:
    """A read-only connection, or None where llm has logged nothing at `path`."""
    if not Path(path).exists():
        yield None
        return
    try:
        with closing(sqlite3.connect(_uri(path, "ro"), uri=True)) as db:
            yield db if _has_turns(db) else None
    except sqlite3.Error as error:
        raise LogError(
            f"{path} cannot be read as an llm log database ({error}): name another with -d"
        ) from error


def _has_turns(db: sqlite3.Connection) -> bool:
    columns = {row[1] for row in db.execute("pragma table_info(turns)")}
    return "response_json" in columns


def _uri(path: Path | str, mode: str) -> str:
    return f"{Path(path).resolve().as_uri()}?mode={mode}"


def _is_up_to_date(db: sqlite3.Connection) -> bool:
    """Whether llm has made all its changes to the database. They are llm's alone to make: it
    makes them without a lock, and two processes at it leave a file that neither can mend."""
    from llm.migrations import MIGRATIONS

    made = {row[0] for row in db.execute("select name from _llm_migrations")}
    return made >= {migration.__name__ for migration in MIGRATIONS}


def _make_view(db: sqlite3.Connection) -> None:
    """Put this version of the view in the place of any other."""
    query = "select sql from sqlite_master where type = 'view' and name = 'specdec_runs'"
    found = db.execute(query).fetchone()
    if found and found[0] == VIEW:
        return
    with db:
        db.execute("begin immediate")
        db.execute("drop view if exists specdec_runs")
        db.execute(VIEW)


def _logged(path: Path | str, row: tuple[Any, ...]) -> Logged:
    turn_id, thread_id, datetime_utc, model, response_json, prompt = row
    stored = json.loads(response_json)
    if '{"$"' in response_json:
        stored = _resolved(path, turn_id) or stored
    return Logged(turn_id, thread_id, datetime_utc, model, stored["specdec"], prompt)


def _resolved(path: Path | str, turn_id: str) -> Any:
    """The receipt with llm's references to the turn's text filled in again; None where that
    text is gone."""
    import sqlite_utils
    from condense_json import UncondenseError
    from llm.logs import LogStore

    try:
        return LogStore(sqlite_utils.Database(path)).turn_response_json(turn_id)
    except UncondenseError:
        return None
