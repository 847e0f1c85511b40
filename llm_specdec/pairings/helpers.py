"""Drafters that other plugins list as models: kept usable by name, left out of listings.

A drafter in a list of models is one slip away from answering in its target's place. llm has
no hidden flag, so a helper is taken from the list only while a command lists or searches
models; for `-m NAME` it stays where it is.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_specdec.drafters.table import KINDS
from llm_specdec.errors import SpecdecError

if TYPE_CHECKING:
    from llm_specdec.pairings.registry import Registry

# Commands of llm that look through all models: (parent, command) → their search option.
SEARCHES = {("models", "list"): "query", ("aliases", "set"): "query", ("cli", "prompt"): "queries"}


def hide(found: "Registry", model_aliases: list[Any]) -> None:
    """Take helpers out of llm's list of models, in place, while a command lists or searches.

    hide_helpers = false in the registry turns it off. Never raises.
    """
    if found.hide_helpers and model_aliases and searching():
        drafters = registered_drafters(found)
        model_aliases[:] = [entry for entry in model_aliases if not is_helper(entry, drafters)]


def searching() -> bool:
    """Does the running command list models, or pick one by a search?"""
    context = click.get_current_context(silent=True)
    if context is None or context.parent is None:
        return False
    option = SEARCHES.get((str(context.parent.command.name), str(context.command.name)))
    if option is None or context.params.get("model_id") or context.params.get("model_ids"):
        return False  # a model named outright is found, helper or not
    return option == "query" or bool(context.params.get(option))


def registered_drafters(found: "Registry") -> set[str]:
    """Drafters of the registry that are no pairing's target. A model that lends its head alone
    may well be used itself."""
    pairings = found.pairings.values()
    drafters = {p.drafter for p in pairings if not KINDS[p.kind].in_target}
    return drafters - {p.target for p in pairings}


def is_helper(entry: Any, drafters: set[str]) -> bool:
    """Is this model of another plugin a drafter: registered as one, or one by its files?"""
    model = entry.model or entry.async_model
    if type(model).__module__.startswith("llm_specdec."):
        return False
    name = str(model.model_id)
    return any(name == d or name.endswith(f"/{d}") for d in drafters) or _is_drafter(name)


def _is_drafter(model_id: str) -> bool:
    from llm_specdec.drafters.recognise import is_drafter

    folder = downloaded(model_id)
    if folder is None:
        return False
    try:
        return is_drafter(folder)
    except SpecdecError:
        return False  # not ours to complain about here


def downloaded(model_id: str) -> Path | None:
    """The newest snapshot of a repository in the hub's cache, found without its library.

    Source: huggingface_hub's documented cache layout and environment variables.
    """
    owner, _, name = model_id.rpartition("/")
    if not owner or "/" in owner:
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface")
    home = Path(os.environ.get("HF_HOME", home))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()
    snapshots = cache / f"models--{owner}--{name}" / "snapshots"
    try:
        return max(snapshots.iterdir(), key=lambda path: path.stat().st_mtime, default=None)
    except OSError:
        return None
