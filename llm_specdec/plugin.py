"""llm hooks. Imported by every `llm` command, so it imports next to nothing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import llm

from llm_specdec.cli import specdec
from llm_specdec.errors import RegistryError

if TYPE_CHECKING:
    from llm_specdec.pairings.registry import Registry


@llm.hookimpl
def register_commands(cli: click.Group) -> None:
    cli.add_command(specdec)


@llm.hookimpl(trylast=True)
def register_models(register: Callable[..., None], model_aliases: list[Any]) -> None:
    """One small file read. A broken registry leaves llm's other models alone.

    Last, because helpers among the models of other plugins are hidden.
    """
    from llm_specdec.console.notices import (
        warn,  # once, though a command may list the models thrice
    )
    from llm_specdec.pairings import helpers, registry

    try:
        found = registry.load()
    except RegistryError as error:
        warn(f"no specdec models: {error}")
        return
    if not _in_own_command():  # which say it themselves
        for problem in found.problems.values():
            warn(problem)
    helpers.hide(found, model_aliases)
    if found.pairings:
        _register(found, register)


def _in_own_command() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and "specdec" in context.command_path.split()


def _register(found: "Registry", register: Callable[..., None]) -> None:
    from llm_specdec.adapter.models import AsyncSpecdecModel, SpecdecModel

    for model_id, (pairing, profile) in found.ids().items():
        aliases = pairing.aliases if model_id == pairing.name else []
        identity = model_id, pairing, profile
        register(SpecdecModel(*identity), AsyncSpecdecModel(*identity), aliases=aliases)
