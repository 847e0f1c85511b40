"""What llm was told beside the prompt: on its command line, which stands in click's context, and by
its stored options."""

import sys
from typing import Any

import click
import llm


def llm_command() -> click.Context | None:
    """The context of the llm command that runs; None for a library user, who may have a click
    command of their own."""
    context, cli = click.get_current_context(silent=True), sys.modules.get("llm.cli")
    ours = context is not None and cli is not None and context.find_root().command is cli.cli
    return context if ours else None


def told_apart(model_id: str, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(stored, given) options. On the command line llm merges the two, `-o` above; from Python
    it uses no stored ones."""
    context = llm_command()
    if context is None or "options" not in context.params:
        return {}, options
    typed = {key for key, _ in context.params["options"] or ()}
    stored = stored_options(model_id).keys() - typed
    return (
        {key: value for key, value in options.items() if key in stored},
        {key: value for key, value in options.items() if key not in stored},
    )


def stored_options(model_id: str) -> dict[str, str]:
    """What `llm models options set` keeps for this id."""
    from llm.cli import get_model_options

    found: dict[str, str] = get_model_options(model_id)
    return found


def log_database() -> str | None:
    """Where llm will log this response; None where it will not: `-n`, `llm logs off`, and all
    use from Python, where it is not known whether the caller logs it."""
    context = llm_command()
    if context is None:
        return None
    params, user = context.params, llm.user_dir()
    if params.get("no_log") or ((user / "logs-off").exists() and not params.get("log")):
        return None
    return str(params.get("database") or user / "logs.db")
