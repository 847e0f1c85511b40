"""TOML text → registry: every key checked, every error with its line."""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from llm_specdec import settings
from llm_specdec.drafters.table import KINDS, NONE, folder_kinds, lanes, words
from llm_specdec.errors import RegistryError, UsageError
from llm_specdec.pairings.registry.lines import line_of
from llm_specdec.pairings.registry.pairings import (
    ADDRESS,
    ENGINES,
    NAMES_ARE,
    Pairing,
    Profile,
    Registry,
    Served,
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
    hides, keep_alive = top.get("hide_helpers", True), top.get("keep_alive", "0")
    return Registry(path, pairings, hides, problems, cache, keep_alive)


class _Wrong(Exception):
    """A key that is not what it should be."""

    def __init__(self, key: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.key = key

    def shown(self, path: Path, text: str) -> str:
        line = line_of(text, self.key)
        place = f"{path}:{line}" if line else str(path)
        return f"{place}: {'.'.join(self.key)}: {self}"


# A table of names to tables; what is inside is read by others.
_TABLE = settings.Form("a table", dict)
_WORDS = settings.Form("a list of texts", list[Annotated[str, Field(min_length=1)]])
_REASONS = settings.Form("a table of texts", dict[str, str])


def _calibrated(readings: tuple[str, ...]) -> settings.Form:
    """What calibration found: which hidden states of the target the drafter reads."""

    def known(table: dict[str, Any]) -> dict[str, Any]:
        if table.get("reads") not in readings:
            raise ValueError
        return table

    form = f"a table with reads = {' or '.join(map(json.dumps, readings))}"
    return settings.Form(form, Annotated[dict[str, Any], AfterValidator(known)])


_TOP = {
    "hide_helpers": settings.FLAG,
    "keep_alive": settings.DURATION,
    "cache": _TABLE,
    "pairings": _TABLE,
}
_CACHE = {"limit": settings.SIZE, "hot": settings.SIZE}


@cache
def _pairing_forms(kinds: tuple[str, ...], readings: tuple[str, ...]) -> dict[str, settings.Form]:
    return {
        "target": settings.TEXT,
        "drafter": settings.TEXT,
        "kind": settings.choice(*kinds),
        "drafter_bits": settings.choice(4, 8),
        "drafter_group_size": settings.choice(32, 64, 128),
        "aliases": _WORDS,
        "enabled": settings.FLAG,
        "disabled_reason": settings.Form("a text", str),
        "added": settings.TEXT,
        "fingerprints": _REASONS,
        "settings": _TABLE,
        "deviations": _REASONS,
        "profiles": _TABLE,
        "card": _TABLE,
        "served": _TABLE,
        "head": _calibrated(readings),
    }


_SERVED: dict[str, settings.Form] = {
    "url": settings.Form(
        "an address such as http://host:8000/v1", Annotated[str, Field(pattern=f"^{ADDRESS}$")]
    ),
    "engine": settings.choice(*ENGINES),
    "version": settings.TEXT,
    "key": settings.TEXT,
    "insecure": settings.FLAG,
    "tokenizer": settings.TEXT,
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
    readings = tuple(reads for kind in KINDS.values() for reads in kind.readings)
    fields = _fields(_pairing_forms(tuple(lanes()), readings), table, above)
    if "target" not in fields:
        raise _Wrong(above, "target is missing")
    _check_drafter(fields, above)
    if "served" in fields:
        fields["served"] = _served(fields, above)
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
    drafter = fields.get("drafter", NONE.name)
    kind = fields.setdefault("kind", drafter if drafter in words() else "")
    if drafter in words() and kind != drafter:
        raise _Wrong((*above, "kind"), f"must be {drafter}, as drafter is")
    if drafter not in words() and kind not in folder_kinds():
        allowed = " or ".join(folder_kinds())
        raise _Wrong((*above, "kind"), f"must be {allowed} for drafter {drafter!r}")


def _served(fields: dict[str, Any], above: tuple[str, ...]) -> Served:
    key = (*above, "served")
    found = _fields(_SERVED, fields["served"], key)
    for name in ("url", "engine"):
        if name not in found:
            raise _Wrong(key, f"{name} is missing")
    if fields.get("drafter", NONE.name) != NONE.name:
        raise _Wrong((*above, "drafter"), "must be none: the server has its own")
    return Served(**found)


def _profile(table: object, above: tuple[str, ...]) -> Profile:
    if not isinstance(table, dict):
        raise _Wrong(above, "must be a table")
    _check_name(above[-1], above)
    reasons = table.get("deviations", {})
    deviations = _fields({"deviations": _REASONS}, {"deviations": reasons}, above)["deviations"]
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
