"""`llm specdec …`: the command group. A command's module is imported when it is called."""

import importlib
from typing import Any

import click

from llm_specdec.errors import SpecdecError, UsageError

# name → (module below llm_specdec.cli, one-line help). Help stands here so that
# `llm specdec --help` imports none of them; a test keeps it equal to the command's own.
COMMANDS: dict[str, tuple[str, str]] = {
    "add": ("add", "Register a target and its drafter as an llm model"),
    "bench": ("bench", "Measure whether a drafter is worth having"),
    "cache": ("cache", "Show, empty or limit the prefix cache"),
    "card": ("card", "Show what a model's card recommends, line by line"),
    "compare": ("compare", "Compare two runs, like with like"),
    "disable": ("pairings", "Run a pairing's target alone for now"),
    "doctor": ("doctor", "Find what is broken, and how to fix it"),
    "enable": ("pairings", "Let a pairing draft again"),
    "explain": ("explain", "Show every setting of a model id and where it comes from"),
    "keep": ("worker", "Keep models in memory between commands"),
    "list": ("pairings", "List the pairings"),
    "inspect": ("inspect", "Show what a model is, what it needs, which drafter fits"),
    "logs": ("logs", "Show rates and phases of the last runs"),
    "move": ("move", "Tell where a pairing's files are now"),
    "ps": ("worker", "Show the models in memory"),
    "profile": ("profiles", "Make and change profiles, each a model id"),
    "remove": ("pairings", "Remove a pairing"),
    "rename": ("move", "Give a pairing another name"),
    "set": ("pairings", "Change settings of a pairing, for all its profiles"),
    "show": ("show", "Show everything that is stored for a pairing"),
    "stop": ("worker", "Give the memory of models back"),
    "update": ("update", "Read the model card again and show what changed"),
}


class Shown(click.ClickException):
    """One of our errors as click prints it: a line on stderr and its exit code."""

    def __init__(self, error: SpecdecError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code  # type: ignore[misc]


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _ = COMMANDS[cmd_name]
        found = importlib.import_module(f"llm_specdec.cli.{module}")
        command: click.Command = getattr(found, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, COMMANDS[name][1]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """The one place where our errors become click's."""
        try:
            return super().invoke(ctx)
        except SpecdecError as error:
            raise Shown(error) from error
        except UnicodeEncodeError as error:  # such bytes reach us as lone surrogates
            raise Shown(UsageError("a name or text is not UTF-8: convert it")) from error


@click.group(name="specdec", cls=LazyGroup)
def specdec() -> None:
    """Pair local MLX models with drafters, and see where the time went.

    \b
    Examples:
      llm specdec add qwen --target mlx-community/Qwen3.8-27B-4bit
      llm specdec logs -n 3
    """
