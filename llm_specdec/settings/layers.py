"""Layers of settings, one above the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_specdec.settings.known import SETTINGS

# Lowest to highest; `explain` and every message use these words.
LAYERS = ("built-in", "base card", "card", "pairing", "profile", "stored option", "-o")


class Value(NamedTuple):
    """A value and where it was said."""

    value: Any
    layer: str
    source: str


@dataclass(frozen=True)
class Resolved:
    """One setting: the value in effect, and those below it, highest first."""

    value: Any
    layer: str
    source: str
    shadowed: tuple[Value, ...]


class Against(NamedTuple):
    """A value in effect that the card speaks against, without a deviation."""

    setting: str
    message: str


Layer = Mapping[str, Value]


def stack(layers: list[Layer]) -> dict[str, Resolved]:
    """Every setting's winner and losers, from layers given lowest first."""
    resolved = {}
    for name, setting in SETTINGS.items():
        said = [layer[name] for layer in layers if name in layer]
        said.insert(0, Value(setting.default, LAYERS[0], "llm-specdec"))
        top = said.pop()
        resolved[name] = Resolved(*top, shadowed=tuple(reversed(said)))
    return resolved
