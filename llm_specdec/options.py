"""Which of llm's options were stored, and which belong to this call."""

from typing import Any

import click


def told_apart(model_id: str, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(stored, given). On the command line llm merges the two, `-o` above; from Python it
    uses no stored ones."""
    context = click.get_current_context(silent=True)
    if context is None or "options" not in context.params:
        return {}, options
    from llm.cli import get_model_options

    typed = {key for key, _ in context.params["options"] or ()}
    stored = get_model_options(model_id).keys() - typed
    return (
        {key: value for key, value in options.items() if key in stored},
        {key: value for key, value in options.items() if key not in stored},
    )
