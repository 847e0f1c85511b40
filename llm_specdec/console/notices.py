"""What is said beside the answer, on stderr: stdout is the answer's alone."""

import functools
import sys

import click


@functools.cache
def warn(text: str) -> None:
    """Once a process: a chain of tools or a chat would repeat it every turn."""
    click.echo(f"Warning: {text}", err=True)


def tell(text: str) -> None:
    """Say why it takes a moment, to a person only."""
    if sys.stderr.isatty():
        click.echo(text, err=True)
