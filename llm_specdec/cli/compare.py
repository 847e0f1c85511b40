"""`llm specdec compare`: two runs, like with like."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from llm_specdec.bench import machine
from llm_specdec.bench.store import Store
from llm_specdec.cli.logs import database_option, log_path, model_id
from llm_specdec.cli.output import print_json, wrapped
from llm_specdec.console.text import echo
from llm_specdec.errors import CheckFailed, LogError
from llm_specdec.pairings import registry
from llm_specdec.receipts import Side, compare, latest, turn
from llm_specdec.receipts.compare import FIGURES


@click.command(name="compare", short_help="Compare two runs, like with like")
@click.argument("a")
@click.argument("b")
@database_option
@click.option("--json", "as_json", is_flag=True, help="Figures, gains and refusals as JSON")
def compare_command(a: str, b: str, database: Path | None, as_json: bool) -> None:
    """Show what run B gains over run A: decode with decode, end-to-end with end-to-end.

    A and B are turn ids (as much of the beginning or end as is unique), model ids (their
    last run), or bench:ID[:CONFIGURATION] (its median run). @decode or @end-to-end after
    one asks for that figure only. What cannot be compared is refused, with the reason.
    Exit status 1 means that nothing could be compared.

    \b
    Examples:
      llm specdec compare qwen-plain qwen
      llm specdec compare 01kb2x… 01kb2y…@decode
      llm specdec compare bench:3 bench:7
    """
    (name_a, figure_a), (name_b, figure_b) = _asked(a), _asked(b)
    path = log_path(database)
    result = compare(_side(path, name_a), _side(path, name_b), figure_a, figure_b)
    if as_json:
        print_json(result)
    else:
        echo("\n".join(_table(result)))
    if not result["compared"]:
        raise CheckFailed("not comparable: " + result["refused"][0]["reason"])


def _asked(text: str) -> tuple[str, str | None]:
    """Split `ID@FIGURE`."""
    name, _, figure = text.rpartition("@")
    return (name, figure) if name and figure in FIGURES else (text, None)


def _side(path: Path, name: str) -> Side:
    if match := re.fullmatch(r"bench:(\d+)(?::(.+))?", name):
        return _benched(int(match[1]), match[2])
    found = latest(path, name) or latest(path, model_id(name)) or turn(path, name)
    if found is None:
        raise LogError(
            f"no logged run has the turn id or model id {name!r}: see llm specdec logs -n 0"
        )
    known = registry.load().pairings.get(found.specdec["pairing"])
    target = known.fingerprints.get("target", known.target) if known else None
    where: str | None = machine.identity(machine.machine())
    if "engine" in found.specdec:
        where = urlsplit(known.served.url).hostname if known and known.served else None
    return Side(found.turn_id, found.model, found.specdec, target, found.prompt, where)


def _benched(bench_id: int, config: str | None) -> Side:
    """The median run of one configuration on the bench's first case; by default of the
    pairing that was benched."""
    found = Store().bench(bench_id)
    conditions = found["conditions"]
    config = config or conditions["configs"][-1]["name"]
    case = conditions["cases"][0]
    runs = [
        run["specdec"]
        for run in found["runs"]
        if (run["config"], run["text"], run["context"]) == (config, case["text"], case["context"])
        and bool(run["warm"]) == (found["mode"] == "warm")
    ]
    if not runs:
        names = ", ".join(each["name"] for each in conditions["configs"])
        raise LogError(f"bench {bench_id} has no run of {config!r}: it ran {names}")
    rate = "end_to_end_tps" if found["mode"] == "warm" else "decode_tps"
    median = sorted(runs, key=lambda run: run["rates"][rate] or 0)[len(runs) // 2]
    return Side(
        f"bench:{bench_id}:{config}",
        config,
        median,
        conditions["models"]["target"]["fingerprint"],
        case["prompt_sha256"],
        machine.identity(conditions["machine"]),
    )


def _table(result: dict[str, Any]) -> list[str]:
    lines = [line for side in ("a", "b") for line in _run_lines(side.upper(), result[side])]
    lines += [
        f"{row['figure']}: B {row['gain_pct']:+.1f}% against A "
        f"({row['b']:.1f} against {row['a']:.1f} tok/s)"
        for row in result["compared"]
    ]
    said = [f"{row['figure']}: refused: {row['reason']}" for row in result["refused"]]
    said += [f"note: {note}" for note in result["notes"]]
    return lines + [part for text in said for part in wrapped(text)]


def _shown(tokens: int | None) -> str:
    return "–" if tokens is None else str(tokens)


def _run_lines(name: str, run: dict[str, Any]) -> list[str]:
    rates = " · ".join(
        f"{figure} {run[key]:.1f} tok/s" if run[key] is not None else f"{figure} –"
        for figure, key in FIGURES.items()
    )
    heat = "warm" if run["warm"] else "cold"
    prompt, completion = _shown(run["prompt_tokens"]), _shown(run["completion_tokens"])
    tokens = f"{prompt} prompt, {completion} completion tokens"
    return [f"{name}  {rates} · {heat}", *wrapped(f"   {tokens} · {run['model']} · {run['id']}")]
