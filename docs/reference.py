"""The generated parts of the reference: `make docs` writes them into docs/*.md with cog."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import llm.cli

from llm_specdec.receipts.store import COLUMNS
from llm_specdec.settings import SETTINGS


def commands() -> str:
    """Every command's --help under a heading of its own."""
    return "\n".join(
        f"## {context.command_path}\n\n```\n{context.command.get_help(context)}\n```\n"
        for context in contexts()
    )


def contexts() -> Iterator[click.Context]:
    """`llm specdec` and every command below it, as click calls them on a screen 80 wide."""
    above = click.Context(
        llm.cli.cli, info_name="llm", terminal_width=80, **llm.cli.cli.context_settings
    )
    return _walk(llm.cli.cli.commands["specdec"], "specdec", above)


def _walk(command: click.Command, name: str, above: click.Context) -> Iterator[click.Context]:
    context = click.Context(command, info_name=name, parent=above)
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found
            yield from _walk(found, below, context)


def settings() -> str:
    """A table of all settings, in the order in which the commands show them."""
    rows = [
        (f"`{name}`", setting.form.form, _default(setting.default), setting.help)
        for name, setting in SETTINGS.items()
    ]
    return table(("setting", "value", "default", "what it does"), rows)


def columns() -> str:
    """The columns of the view `specdec_runs` that come from the receipt."""
    rows = [(f"`{column}`", f"`{place}`") for column, place in COLUMNS.items()]
    return table(("column", "in the receipt"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _default(value: Any) -> str:
    if value in (None, [], {}):
        return "–"
    return f"`{str(value).lower().removesuffix('.0')}`"
