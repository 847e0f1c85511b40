"""TOML text → registry: every key checked, every error with its line."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_specdec import settings
from llm_specdec.errors import RegistryError, UsageError
from llm_specdec.pairings.registry.lines import line_of
from llm_specdec.pairings.registry.pairings import (
    BUILT_IN,
    KINDS,
    NAMES_ARE,
    Pairing,
    Profile,
    Registry,
    is_name,
)


def parse(text: str, path: Path) -> Registry:
    """The registry that `text` describes. Raises RegistryError, naming file, line and key."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RegistryError(f"{path} is not TOML: {error}; mend it by hand") from error
    try:
        top = _fields(_TOP, document, ())
        cache = _fields(_CACHE, top.get("cache", {}), ("cache",))
        tables = top.get("pairings", {})
    except _Wrong as wrong:
        raise RegistryError(wrong.shown(path, text)) from None
    pairings: dict[str, Pairing] = {}
    problems: dict[str, str] = {}
    taken: dict[str, str] = {}  # names and aliases → the pairing they stand for
    for name, table in tables.items():
        try:
            found = pairings[name] = _pairing(name, table, text, taken)
        except _Wrong as wrong:
            problems[name] = wrong.shown(path, text)
        else:
            taken |= dict.fromkeys((name, *found.aliases), name)
    return Registry(path, pairings, top.get("hide_helpers", True), problems, cache)


class _Wrong(Exception):
    """A key that is not what it should be."""

    def __init__(self, key: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.key = key

    def shown(self, path: Path, text: str) -> str:
        line = line_of(text, self.key)
        place = f"{path}:{line}" if line else str(path)
        return f"{place}: {'.'.join(self.key)}: {self}"


class _Table(settings.Object):
    """A table of names to tables; what is inside is read by others."""

    form = "a table"

    def check(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        return value


class _Words(settings.Texts):
    form = "a list of texts"

    def check(self, value: object) -> list[str]:
        if isinstance(value, str):
            raise ValueError
        return super().check(value)


class _Reasons(_Table):
    form = "a table of texts"

    def check(self, value: object) -> dict[str, str]:
        table = super().check(value)
        if not all(isinstance(text, str) for text in table.values()):
            raise ValueError
        return table


class _Head(_Table):
    """What calibration found: which hidden states the target's own head reads."""

    form = 'a table with reads = "final_norm" or "last_layer"'

    def check(self, value: object) -> dict[str, Any]:
        table = super().check(value)
        if table.get("reads") not in ("final_norm", "last_layer"):
            raise ValueError
        return table


_TOP: dict[str, settings.Form] = {
    "hide_helpers": settings.Flag(),
    "cache": _Table(),
    "pairings": _Table(),
}
_CACHE: dict[str, settings.Form] = {"limit": settings.Size(), "hot": settings.Size()}
_PAIRING: dict[str, settings.Form] = {
    "target": settings.Text(),
    "drafter": settings.Text(),
    "kind": settings.Choice(*BUILT_IN, *KINDS),
    "drafter_bits": settings.Choice(4, 8),
    "drafter_group_size": settings.Choice(32, 64, 128),
    "aliases": _Words(),
    "enabled": settings.Flag(),
    "disabled_reason": settings.Text("a text", "(?s).*"),
    "added": settings.Text(),
    "fingerprints": _Reasons(),
    "settings": _Table(),
    "deviations": _Reasons(),
    "profiles": _Table(),
    "card": _Table(),
    "head": _Head(),
}


def _fields(
    known: Mapping[str, settings.Form], table: dict[str, Any], above: tuple[str, ...]
) -> dict[str, Any]:
    fields = {}
    for key, value in table.items():
        if key not in known:
            raise _Wrong((*above, key), f"unknown key; known are {', '.join(known)}")
        try:
            fields[key] = known[key].check(value)
        except (ValueError, TypeError):
            raise _Wrong((*above, key), f"must be {known[key].form}, not {value!r}") from None
    return fields


def _pairing(name: str, table: object, text: str, taken: Mapping[str, str]) -> Pairing:
    above = ("pairings", name)
    if not isinstance(table, dict):
        raise _Wrong(above, "must be a table")
    _check_name(name, above)
    fields = _fields(_PAIRING, table, above)
    if "target" not in fields:
        raise _Wrong(above, "target is missing")
    _check_drafter(fields, above)
    for claimed in (name, *fields.get("aliases", ())):
        _check_name(claimed, above)
        if claimed in taken:
            raise _Wrong(above, f"{claimed!r} already stands for pairing {taken[claimed]}")
    fields["settings"] = _settings(fields.get("settings", {}), (*above, "settings"))
    fields["profiles"] = {
        key: _profile(value, (*above, "profiles", key))
        for key, value in fields.get("profiles", {}).items()
    }
    return Pairing(name=name, text=text, **fields)


def _check_name(name: str, key: tuple[str, ...]) -> None:
    if not is_name(name):
        raise _Wrong(key, f"{name!r} is no name: {NAMES_ARE}")


def _check_drafter(fields: dict[str, Any], above: tuple[str, ...]) -> None:
    """`kind` says what a drafter is; for the built-in ones it may be left out."""
    drafter = fields.get("drafter", "none")
    kind = fields.setdefault("kind", drafter if drafter in BUILT_IN else "")
    if drafter in BUILT_IN and kind != drafter:
        raise _Wrong((*above, "kind"), f"must be {drafter}, as drafter is")
    if drafter not in BUILT_IN and kind not in KINDS:
        raise _Wrong((*above, "kind"), f"must be model or dflash for drafter {drafter!r}")


def _profile(table: object, above: tuple[str, ...]) -> Profile:
    if not isinstance(table, dict):
        raise _Wrong(above, "must be a table")
    _check_name(above[-1], above)
    reasons = table.get("deviations", {})
    deviations = _fields({"deviations": _Reasons()}, {"deviations": reasons}, above)["deviations"]
    said = {key: value for key, value in table.items() if key != "deviations"}
    return Profile(_settings(said, above), deviations)


def _settings(table: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
    checked = {}
    for name, value in table.items():
        try:
            checked[name] = settings.check(name, value)
        except UsageError as error:
            raise _Wrong((*above, name), str(error)) from None
    return checked
