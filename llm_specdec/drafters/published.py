"""Which drafters are published for popular targets: a list to read, nothing is looked up."""

import re
import tomllib
from functools import cache
from importlib.resources import files


def drafters_for(target: str) -> tuple[str, ...]:
    """Repositories, the best first; () where none is known. target: a path or a repository."""
    name = _words(re.split(r"[/\\]", target.rstrip("/\\"))[-1])
    known = [key for key in table() if f" {_words(key)} " in f" {name} "]
    return table()[max(known, key=len)] if known else ()


@cache
def table() -> dict[str, tuple[str, ...]]:
    """Part of a target's name → repositories."""
    text = (files(__package__) / "published.toml").read_text(encoding="utf-8")
    return {key: tuple(found) for key, found in tomllib.loads(text).items()}


def _words(name: str) -> str:
    return " ".join(re.split(r"[-_ ]+", name.lower().replace("gemma4", "gemma-4")))
