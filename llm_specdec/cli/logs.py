"""`llm specdec logs`: the last runs, one line each, from llm's own log."""

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import llm

from llm_specdec import receipts
from llm_specdec.cli.output import exclude, json_option, print_json, table
from llm_specdec.console.text import echo
from llm_specdec.drafters.table import lanes
from llm_specdec.errors import LogError, UsageError
from llm_specdec.receipts import SERVED, SORTS, Logged, line

LAST = 3  # runs that are shown when nothing else is asked for

database_option = click.option(
    "-d",
    "--database",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Log database; llm's own by default",
)


UNITS_OF_TIME = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def when(said: str) -> datetime:
    """A date or time of this place, or how long ago: 30m, 1h, 2d, 1w."""
    try:
        if ago := re.fullmatch(r"(\d{1,6})([mhdw])", said, re.ASCII):
            length = timedelta(**{UNITS_OF_TIME[ago[2]]: int(ago[1])})
            return datetime.now().astimezone() - length
        return datetime.fromisoformat(said).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{said!r} is no time: give 1h, 2d or a date such as 2026-11-30"
        ) from None


def log_path(database: Path | None) -> Path:
    default: Path = llm.user_dir() / "logs.db"
    return database or default


def model_id(name: str) -> str:
    """The id behind an alias; a name that llm does not know stays, as its runs may be logged."""
    try:
        found: str = llm.get_model(name).model_id
    except llm.UnknownModelError:
        return name
    return found


@click.command(name="logs", short_help="Rates and phases of the last runs")
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    help=f"Number of runs; 0 for all  [default: {LAST}; all with --since or --stats]",
)
@click.option("-m", "--model", help="Only runs of this model id or alias")
@click.option("--lane", type=click.Choice([*lanes(), SERVED]), help="Only runs of this lane")
@click.option(
    "--since", type=when, metavar="WHEN", help="Only runs since 30m, 1h, 2d ago, or a date"
)
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="time", help="The highest last; by time"
)
@click.option("--table", "as_table", is_flag=True, help="A table of 80 columns")
@click.option("--stats", is_flag=True, help="Medians for each model and lane")
@database_option
@json_option
def logs_command(
    turns: tuple[str, ...],
    count: int | None,
    model: str | None,
    lane: str | None,
    since: datetime | None,
    sort: str,
    as_table: bool,
    stats: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Show rates and phases of the last runs, newest last, from llm's log.

    Decode rate is tokens over the time after the first token; the end-to-end rate
    counts prefill too, and neither counts loading. Each line ends with model and turn id.
    A TURN is a turn id, or as much of its beginning or end as is unique.

    \b
    Examples:
      llm specdec logs -n 10
      llm specdec logs -m qwen/reason --json
      llm specdec logs --since 2d --stats
      llm specdec logs --since 1h --sort wall --table
    """
    exclude("turns", ["count", "model", "lane", "since", "sort", "stats"], "a TURN is one run")
    exclude("stats", ["sort", "as_table"], "--stats has a table of its own")
    path = log_path(database)
    if turns:
        found = [one_turn(path, name) for name in turns]
    else:
        most = count if count is not None else 0 if since or stats else LAST
        asked = None if model is None else _known(path, model)
        found = receipts.runs(path, most, asked, lane, since, sort)
    rows = receipts.stats(found) if stats else [run.as_json() for run in found]
    if as_json:
        print_json(rows)
    elif not found:
        whose = f"{model}: no runs of this model" if model else "No runs with a receipt"
        fit = " that fit" if lane or since else ""
        echo(f"{whose}{fit} are logged here yet.", err=True)
    elif stats:
        echo("\n".join(_stats_table(rows)))
    elif as_table:
        echo("\n".join(_table(found)))
    else:
        for run in found:
            echo(" · ".join([line(run.specdec), *_load(run), run.model, run.turn_id]))


def _load(run: Logged) -> list[str]:
    """Loading, which no rate counts, where it was long enough to notice."""
    seconds = (run.specdec["phases_ms"]["load"] or 0) / 1000
    return [f"load {seconds:.1f} s"] if seconds >= 0.05 else []


def one_turn(path: Path, name: str) -> Logged:
    """The run of a turn id, which may be shortened. Raises LogError, UsageError."""
    found = receipts.turn(path, name)
    if found is None:
        raise LogError(f"no logged run has the turn id {name!r}: see llm specdec logs -n 0")
    return found


def _known(path: Path, name: str) -> str:
    """The id of a model that llm knows or that has runs. Raises UsageError for any other."""
    found, logged = model_id(name), receipts.models(path)
    known = set(llm.get_model_aliases())
    if found in {*known, *logged}:
        return found
    near = difflib.get_close_matches(name, {*logged, *_ours()}, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "llm specdec list shows the pairings"
    raise UsageError(f"there is no model {name!r}, and no run of one is logged: {hint}")


def _ours() -> set[str]:
    """Ids and aliases of the registry, as llm has them."""
    from llm_specdec.pairings import registry

    found = registry.load()
    return {*found.ids(), *registry.names_in_use(found.pairings)}


# ---- tables ----

HEADINGS = ("turn", "time", "model", "lane", "tokens", "decode", "end-to-end", "TTFT", "accepted")
UNITS = "tok/s; accepted: of drafted"


def _table(runs: Sequence[Logged]) -> list[str]:
    ends = _endings([run.turn_id for run in runs])
    return [*table([HEADINGS, *map(_cells, runs, ends)]), f"rates in {UNITS}"]


def _cells(run: Logged, end: str) -> tuple[str, ...]:
    receipt = run.specdec
    lane, rates = receipt["lane"], receipt["rates"]
    return (
        end,
        _when(datetime.fromisoformat(run.datetime_utc).astimezone()),
        run.model,
        lane["kind"] if lane["state"] != "off" or "engine" in receipt else "off",
        "–" if receipt["tokens"]["completion"] is None else str(receipt["tokens"]["completion"]),
        *_figures(rates, receipt["ttft_ms"], receipt["draft"]["acceptance_rate"]),
    )


def _endings(turn_ids: Sequence[str]) -> list[str]:
    """The ends of the ids, as short as they may be to be told apart."""
    for length in range(6, 26):
        ends = [turn_id[-length:] for turn_id in turn_ids]
        if len(set(ends)) == len(ends):
            return ends
    return list(turn_ids)


def _when(moment: datetime) -> str:
    today = moment.date() == datetime.now().date()
    return f"{moment:%H:%M}" if today else f"{moment.day} {moment:%b}"


def _stats_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = ("model", "lane", "runs", "warm", "tokens", "decode", "end-to-end", "TTFT", "accepted")
    cells = [
        (
            row["model"],
            "off" if row["lane"] == "none" else row["lane"],
            str(row["runs"]),
            str(row["warm"]),
            str(row["completion_tokens"]),
            *_figures(row, row["ttft_ms"], row["acceptance_rate"]),
        )
        for row in rows
    ]
    return [
        *table([head, *cells]),
        f"medians in {UNITS}",
        "end-to-end and TTFT are of cold runs",
    ]


def _figures(rates: Mapping[str, Any], ttft_ms: float | None, rate: float | None) -> list[str]:
    return [
        _shown(rates["decode_tps"]),
        _shown(rates["end_to_end_tps"]),
        "–" if ttft_ms is None else f"{ttft_ms / 1000:.1f}s",
        "–" if rate is None else f"{rate:.0%}",
    ]


def _shown(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.1f}"
