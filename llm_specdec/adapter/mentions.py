"""Where llm itself names a model id: its default model, stored options, aliases, templates."""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import llm
from llm.cli import clear_model_option, get_model_options, set_model_option


def rename(names: Mapping[str, str]) -> list[str]:
    """Carry the default model and stored options over from old ids to new ones (old → new).

    Returns what was changed, a line each.
    """
    changed = []
    default = llm.get_default_model()
    if default in names:
        llm.set_default_model(names[default])
        changed.append(f"llm's default model is now {names[default]}")
    for old, new in names.items():
        if options := get_model_options(old):
            for key, value in options.items():
                set_model_option(new, key, value)
                clear_model_option(old, key)
            changed.append(f"llm's stored options of {old} are now those of {new}")
    return changed


def of(names: Collection[str]) -> list[str]:
    """Everything that still names one of these ids, and the command that mends it."""
    return [*_default(names), *_options(names), *_aliases(names), *_templates(names)]


def _default(names: Collection[str]) -> Iterator[str]:
    default = llm.get_default_model()
    if default in names:
        yield f"llm's default model is {default}: llm models default NAME"


def _options(names: Collection[str]) -> Iterator[str]:
    for name in names:
        if get_model_options(name):
            mend = shlex.join(["llm", "models", "options", "clear", name])
            yield f"llm has stored options of {name}: {mend}"


def _aliases(names: Collection[str]) -> Iterator[str]:
    try:
        aliases = json.loads((llm.user_dir() / "aliases.json").read_text("utf-8"))
    except (OSError, ValueError):
        return
    for alias, model_id in aliases.items() if isinstance(aliases, dict) else ():
        if model_id in names:
            mend = shlex.join(["llm", "aliases", "set", alias])
            yield f"llm's alias {alias} stands for {model_id}: {mend} NAME"


def _templates(names: Collection[str]) -> Iterator[str]:
    folder = Path(llm.user_dir(), "templates")
    for path in sorted(folder.glob("*.yaml")):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        found = re.search(r"""^model:\s*["']?(.+?)["']?\s*$""", text, re.MULTILINE)
        if found and found[1] in names:
            mend = shlex.join(["llm", "templates", "edit", path.stem])
            yield f"llm's template {path.stem} asks {found[1]}: {mend}"
