"""llm hooks. Imported by every `llm` command, so it imports next to nothing."""

import click
import llm

from llm_specdec.cli import specdec


@llm.hookimpl
def register_commands(cli: click.Group) -> None:
    cli.add_command(specdec)
