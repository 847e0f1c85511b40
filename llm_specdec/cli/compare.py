"""`llm specdec compare`: two runs, like with like."""

import json
from pathlib import Path
from typing import Any

import click

from llm_specdec.cli.logs import database_option, log_path, model_id
from llm_specdec.errors import CheckFailed, LogError
from llm_specdec.receipts import Side, compare, latest
from llm_specdec.receipts.compare import FIGURES


@click.command(name="compare", short_help="What one run gains over another, like with like")
@click.argument("a")
@click.argument("b")
@database_option
@click.option("--json", "as_json", is_flag=True, help="Figures, gains and refusals as JSON")
def compare_command(a: str, b: str, database: Path | None, as_json: bool) -> None:
    """What run B gains over run A: decode with decode, end-to-end with end-to-end.

    A and B are turn ids or model ids (their last run). @decode or @end-to-end behind
    one asks for that figure only. What cannot be compared is refused with the reason;
    exit code 1 where nothing is left.

    \b
    Examples:
      llm specdec compare qwen-plain qwen
      llm specdec compare 01kb2x… 01kb2y…@decode
    """
    (name_a, figure_a), (name_b, figure_b) = _asked(a), _asked(b)
    path = log_path(database)
    result = compare(_side(path, name_a), _side(path, name_b), figure_a, figure_b)
    click.echo(json.dumps(result, indent=2) if as_json else "\n".join(_table(result)))
    if not result["compared"]:
        raise CheckFailed("not comparable: " + result["refused"][0]["reason"])


def _asked(text: str) -> tuple[str, str | None]:
    """Split `ID@FIGURE`."""
    name, _, figure = text.rpartition("@")
    return (name, figure) if name and figure in FIGURES else (text, None)


def _side(path: Path, name: str) -> Side:
    found = latest(path, name) or latest(path, model_id(name))
    if found is None:
        raise LogError(
            f"no logged run has the turn id or model id {name!r}: see llm specdec logs -n 0"
        )
    return Side(found.turn_id, found.model, found.specdec, prompt=found.prompt)


def _table(result: dict[str, Any]) -> list[str]:
    lines = [_run_line(side.upper(), result[side]) for side in ("a", "b")]
    lines += [
        f"{row['figure']}: B {row['gain_pct']:+.1f}% against A "
        f"({row['b']:.1f} against {row['a']:.1f} tok/s)"
        for row in result["compared"]
    ]
    lines += [f"{row['figure']}: refused: {row['reason']}" for row in result["refused"]]
    lines += [f"note: {note}" for note in result["notes"]]
    return lines


def _run_line(name: str, run: dict[str, Any]) -> str:
    rates = " · ".join(
        f"{figure} {run[key]:.1f} tok/s" if run[key] is not None else f"{figure} –"
        for figure, key in FIGURES.items()
    )
    heat = "warm" if run["warm"] else "cold"
    return (
        f"{name}  {rates} · {heat} · {run['prompt_tokens']} prompt, "
        f"{run['completion_tokens']} completion tokens · {run['model']} · {run['id']}"
    )
