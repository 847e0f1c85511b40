"""`llm specdec bench`: does a drafter earn its place on this machine?"""

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from llm_specdec.bench import prompts, table
from llm_specdec.bench.results import assemble, redact
from llm_specdec.bench.rules import GATE
from llm_specdec.bench.store import Store
from llm_specdec.cli.output import exclude, json_option, print_json
from llm_specdec.console.progress import progress
from llm_specdec.console.text import echo
from llm_specdec.errors import CheckFailed, ResourceError, Undecided, UsageError

FAILED = ("vetoed", "broken")


class RunByDefault(click.Group):
    """`bench PAIRING …` is `bench run PAIRING …`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)


report_option = click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result as a page (.html) or a table (.md)",
)
redact_option = click.option(
    "--redact", is_flag=True, help="Show fingerprints instead of names and paths"
)


@click.group(name="bench", cls=RunByDefault, short_help="Measure whether a drafter is worth having")
def bench_command() -> None:
    """Measure a pairing against its target alone, and let a gate decide.

    `llm specdec bench PAIRING` is short for `bench run PAIRING`; see its help.

    \b
    Examples:
      llm specdec bench qwen --context 4096 --context 16384 --gate 15
      llm specdec bench qwen --lanes --report lanes.html
      llm specdec bench list
    """


@bench_command.command(name="run", short_help="Bench a pairing (the default)")
@click.argument("model")
@click.option(
    "--against",
    default="none",
    show_default=True,
    help="The baseline: none (the target alone) or a model id",
)
@click.option(
    "--context",
    "contexts",
    type=click.IntRange(min=1),
    multiple=True,
    help=f"Length of the prompt in tokens; may be repeated  [default: {prompts.DEFAULT_TOKENS}]",
)
@click.option(
    "--class",
    "texts",
    type=click.Choice(prompts.CLASSES),
    multiple=True,
    help="Built-in text to use; may be repeated  [default: all three]",
)
@click.option(
    "--prompt-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Your own prompts: a text, or JSON lines with a key prompt",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Runs of each configuration",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=2),
    default=256,
    show_default=True,
    help="Longest answer in tokens",
)
@click.option(
    "--gate",
    type=float,
    default=GATE,
    show_default=True,
    help="Gain in percent of the median decode rate that the pairing must reach",
)
@click.option("--no-gate", is_flag=True, help="Measure only: no verdict, and nothing changes")
@click.option("--warm", is_flag=True, help="Measure what a warm start saves; decides nothing")
@click.option("--lanes", is_flag=True, help="Try every drafter of the target at several lengths")
@report_option
@redact_option
@json_option
def run_command(model: str, **options: Any) -> None:
    """Bench MODEL (a pairing or PAIRING/PROFILE) against its target alone.

    Greedy outputs are compared first: they must be the same tokens. Then both run in turn,
    in one process, without the prefix cache. If the gain of the median decode rates reaches
    the gate at every context, the pairing is adopted; otherwise it is disabled, and its
    files stay. Undecided, and nothing changes: other processes kept the machine busy, or the
    runs lie so far apart that their spread swallows the gain. Ctrl-C keeps what ran.
    Exit status 1 means vetoed or broken, 3 undecided.

    \b
    Examples:
      llm specdec bench qwen --context 4096 --context 16384
      llm specdec bench qwen/reason --class code --max-tokens 1024
      llm specdec bench qwen --against qwen-small
    """
    _check_options(options)
    from llm_specdec.bench.command import bench

    with progress(f"loading {model}") as tell:
        found = bench(model, options, tell)
    _show(found, options)
    echo(_outcome(found), err=True)
    click.get_current_context().exit(_exit_code(found))


def _exit_code(found: Mapping[str, Any]) -> int:
    """1 for a check that failed or a bench cut short, 3 where the figures carry no verdict."""
    if found["verdict"]["status"] in FAILED or found["partial"]:
        return CheckFailed.exit_code
    return Undecided.exit_code if found["verdict"]["status"] == "undecided" else 0


def _outcome(found: Mapping[str, Any]) -> str:
    """What the bench changed, and how to undo it."""
    applied = found["verdict"].get("applied")
    if found["partial"]:
        return f"bench {found['id']} was interrupted: what ran is kept, nothing is changed"
    if not applied:
        return f"bench {found['id']} is kept, nothing is changed"
    name = applied["pairing"]
    if applied["enabled"]:
        return f"{name} {'goes on drafting' if applied['was_enabled'] else 'drafts from now on'}"
    off = "is switched off" if applied["was_enabled"] else "stays switched off"
    if found["verdict"]["status"] == "broken":
        return f"{name} {off}, its files are kept"
    return f"{name} {off}, its files are kept: llm specdec enable {name} --override 'why' undoes it"


@bench_command.command(name="list", short_help="List all benches and their verdicts")
@json_option
def list_command(as_json: bool) -> None:
    """List all benches and their verdicts, oldest first.

    \b
    Example:
      llm specdec bench list --json
    """
    rows = Store().benches()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        echo(f"{row['id']:>4}  {row['datetime_utc'][:16]}  {table.title(row)}")
        echo(f"      {table.verdict(row)}")
    if not rows:
        echo("No bench has run yet.", err=True)


@bench_command.command(name="show", short_help="Show one bench again")
@click.argument("bench_id", type=int)
@report_option
@redact_option
@json_option
def show_command(bench_id: int, **options: Any) -> None:
    """Show one bench again, as a table, report or JSON.

    \b
    Examples:
      llm specdec bench show 7
      llm specdec bench show 7 --report bench.html --redact
    """
    _check_report(options["report"])
    _show(assemble(Store().bench(bench_id)), options)


def _check_options(options: dict[str, Any]) -> None:
    """Everything that can be known to be wrong before a model is loaded."""
    if options["prompt_file"] and (options["contexts"] or options["texts"]):
        raise UsageError("--prompt-file brings its own prompts: leave --context and --class out")
    if options["lanes"] and (options["warm"] or options["against"] != "none"):
        raise UsageError("--lanes compares with the target alone, cold: leave the others out")
    exclude("no_gate", ["gate"], "--no-gate gives no verdict")
    exclude("warm", ["gate"], "--warm decides nothing")
    if not 0 <= options["gate"] < math.inf:
        raise UsageError("--gate is a percentage of 0 or more")
    _check_report(options["report"])


def _check_report(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix not in (".html", ".md"):
        raise UsageError(f"--report {path}: the name must end in .html or .md")
    if not path.parent.is_dir():
        raise UsageError(f"--report {path}: there is no folder {path.parent}")
    needed = ("matplotlib", "jinja2") if path.suffix == ".html" else ()
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        raise ResourceError(
            f"a page needs {' and '.join(missing)}: llm install 'llm-specdec[report]', "
            "or use --report FILE.md"
        )


def _show(found: dict[str, Any], options: dict[str, Any]) -> None:
    found = redact(found) if options["redact"] else found
    if path := options["report"]:
        _write(path, found)
    if options["as_json"]:
        print_json(found)
    else:
        echo(table.text(found))


def _write(path: Path, found: dict[str, Any]) -> None:
    if path.suffix == ".md":
        page = table.markdown(found) + "\n"
    else:
        from llm_specdec.bench.report import html

        page = html(found)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--report {path} cannot be written: {error}") from error
