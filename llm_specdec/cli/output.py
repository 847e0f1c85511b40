"""How commands print: data on stdout, warnings on stderr, tables of at most 80 columns."""

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from llm_specdec.console import text as console
from llm_specdec.console.progress import say
from llm_specdec.console.text import echo, escaped, one_line
from llm_specdec.errors import UsageError

WIDTH = 80
GAP = "  "


json_option = click.option("--json", "as_json", is_flag=True, help="Everything as JSON")
yes_option = click.option("--yes", is_flag=True, help="Do not ask")


def warn(text: str) -> None:
    say(f"warning: {one_line(text)}")


def done(text: str, data: Any, as_json: bool) -> None:
    """What a command changed: a line for a person on stderr, or `data` on stdout."""
    if as_json:
        print_json(data)
    else:
        echo(text, err=True)


def typed() -> dict[str, str]:
    """What was typed on the command line: a parameter's name → the option, such as --gate."""
    context = click.get_current_context()
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    }


def exclude(option: str, others: Sequence[str], why: str) -> None:
    """Refuse what was typed beside `option` and would be ignored. Names are those of the
    command's parameters. Raises UsageError."""
    given = typed()
    beside = [given[name] for name in others if name in given]
    if option in given and beside:
        raise UsageError(f"{why}: leave {' and '.join(beside)} out")


def on_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> None:
    """Go on only if the person at the terminal agrees. Raises click.Abort, exit code 1."""
    console.confirm(question, abort=True)


def print_json(data: Any) -> None:
    echo(escaped(json.dumps(data, indent=2, ensure_ascii=False)))


def show_value(value: Any) -> str:
    """A setting's value as one would type it; unset shows as a dash."""
    if value is None or value in ({}, []):
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return one_line(str(value))


def counted(entries: int) -> str:
    return f"{entries} entr{'y' if entries == 1 else 'ies'}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of aligned columns; the widest columns lose their beginning until all fit.

    It is the beginning that goes because paths and repositories differ at their end.
    """
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = WIDTH - len(GAP) * (len(widths) - 1)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return [
        GAP.join(
            clip(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def wrapped(text: str) -> list[str]:
    """`text` over as many lines as it needs, the further ones set in; long names stay whole."""
    inset = len(text) - len(text.lstrip())
    return textwrap.wrap(
        text.lstrip(),
        WIDTH,
        initial_indent=" " * inset,
        subsequent_indent=" " * (inset or 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def clip(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]
