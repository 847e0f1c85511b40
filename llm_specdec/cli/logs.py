"""`llm specdec logs`: the last runs, one line each, from llm's own log."""

import json
from pathlib import Path

import click
import llm

from llm_specdec.receipts import line, runs

database_option = click.option(
    "-d",
    "--database",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Log database; llm's own by default",
)


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


@click.command(name="logs", short_help="Show rates and phases of the last runs")
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Number of runs; 0 for all",
)
@click.option("-m", "--model", help="Only runs of this model id or alias")
@database_option
@click.option("--json", "as_json", is_flag=True, help="Receipts as JSON")
def logs_command(count: int, model: str | None, database: Path | None, as_json: bool) -> None:
    """Show rates and phases of the last runs, newest last, from llm's log.

    The decode rate counts the time after the first token, the end-to-end rate the time
    to read the prompt as well; neither counts loading. Each line ends with model and
    turn id.

    \b
    Examples:
      llm specdec logs -n 10
      llm specdec logs -m qwen/reason --json
    """
    found = runs(log_path(database), count, model and model_id(model))
    if as_json:
        click.echo(json.dumps([run.as_json() for run in found], indent=2))
        return
    for run in found:
        click.echo(" · ".join([line(run.specdec), run.model, run.turn_id]))
    if not found:
        whose = f"{model}: no runs of this model" if model else "No runs with a receipt"
        click.echo(f"{whose} are logged here yet.", err=True)
