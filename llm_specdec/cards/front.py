"""The front matter of a card: where it ends, and the base models it names."""

import re
from typing import Any

import yaml

FENCED = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
LARGEST = 65_536  # characters; a longer front matter is none
HUB_ADDRESS = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/")


def body_start(text: str) -> int:
    """How many lines the front matter takes."""
    match = FENCED.match(text[:LARGEST])
    return text.count("\n", 0, match.end()) if match else 0


def base_models(text: str | None) -> list[str]:
    """Repositories named by `base_model`, in order; none where the YAML is broken."""
    match = FENCED.match((text or "")[:LARGEST])
    if not match:
        return []
    try:
        front: Any = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date that is none
        return []
    named = front.get("base_model") if isinstance(front, dict) else None
    names = named if isinstance(named, list) else [named]
    found = (HUB_ADDRESS.sub("", name).strip("/ ") for name in names if isinstance(name, str))
    return list(dict.fromkeys(name for name in found if name))
