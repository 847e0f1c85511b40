"""What a card says, as the registry file keeps it, and the two layers it gives to settings."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from llm_specdec.cards.found import SETTINGS, Card, Finding
from llm_specdec.cards.merge import effective

if TYPE_CHECKING:
    from tomlkit.items import Table

# Kept for reading on, not needed to resolve a setting, or worked out again from the rest.
_LEFT_OUT = {"effective", "candidates", "notes", "lines"}
_OPTIONAL: dict[str, dict[str, None]] = {
    "recommended": {"mode": None, "line": None},
    "ranges": {"low": None, "high": None, "mode": None},
    "disagreements": {"mode": None},
}


def dump(card: Card, *, taken: bool) -> dict[str, Any]:
    """Plain data without None, for the pairing's `card` table.

    taken: whether the card's values count; what it rejects is known either way.
    """
    data: dict[str, Any] = {"taken": taken}
    for key, value in card.to_dict().items():
        if key in _LEFT_OUT or value in (None, [], {}):
            continue
        if isinstance(value, list):
            value = [
                {k: v for k, v in entry.items() if v is not None and k != "text"} for entry in value
            ]
        data[key] = value
    return data


def as_toml(data: dict[str, Any]) -> "Table":
    """The same for a file that people read: one line for each thing that the card says."""
    import tomlkit

    table = tomlkit.table()
    for key, value in data.items():
        if isinstance(value, list):
            array = tomlkit.array()
            for entry in value:
                inline = tomlkit.inline_table()
                inline.update(entry)
                array.append(inline)
            table[key] = array.multiline(True)
        elif isinstance(value, dict):
            inline = tomlkit.inline_table()
            inline.update(value)
            table[key] = inline
        else:
            table[key] = value
    return table


def load(data: dict[str, Any]) -> tuple[Card, bool]:
    """The card and whether its values count. Raises ValueError: not what `dump` wrote."""
    known = {field.name for field in fields(Card)}
    plain = {
        key: [{**_OPTIONAL.get(key, {}), **entry} if isinstance(entry, dict) else entry
              for entry in value]
        if isinstance(value, list)
        else value
        for key, value in data.items()
        if key in known
    }  # fmt: skip
    card = _checked(plain)
    try:
        card.effective = effective(card)
    except KeyError as error:
        raise ValueError(f"lineage: {error} is missing") from None
    return card, bool(data.get("taken"))


def _checked(plain: dict[str, Any]) -> Card:
    """Raises ValueError, naming the place, where the types or the settings' names are wrong."""
    import pydantic

    try:
        card = pydantic.TypeAdapter(Card).validate_python(plain)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
    named: list[Any] = [
        *card.recommended,
        *card.ranges,
        *card.forbidden,
        *card.required,
        *card.disagreements,
    ]
    for entry in named:
        if entry.setting not in (*SETTINGS, "greedy"):
            raise ValueError(f"{entry.setting!r} is no setting that a card speaks of")
    return card


def layers(card: Card, mode: str) -> tuple[dict[str, Finding], dict[str, Finding]]:
    """(base card, card): setting → the value each of them gives in a mode, with its place.

    mode: `default`, `thinking` or `non-thinking`. A base's value is listed although the
    target's own hides it; one that the target rejects or leaves doubtful is not.
    """
    mine = [f for f in card.recommended if f.repo == card.target]
    theirs = [f for f in card.recommended if f.repo != card.target]
    both = _in_mode(card, mode)
    own = {
        name: _place(mine, name, value, mode)
        for name, value in _in_mode(replace(card, recommended=mine), mode).items()
    }
    base = {
        name: _place(theirs, name, value, mode)
        for name, value in _in_mode(replace(card, recommended=theirs), mode).items()
        if name in both
    }
    return base, own


def _in_mode(card: Card, mode: str) -> dict[str, Any]:
    """A mode that nobody names takes what is said for every mode."""
    values = effective(card)
    return values.get(mode, values["default"])


def _place(findings: list[Finding], setting: str, value: Any, mode: str) -> Finding:
    """Where a value stands: the nearest repository, its line for the mode before others."""
    same = [f for f in findings if f.setting == setting and f.value == value]
    for repo in dict.fromkeys(f.repo for f in same):
        said = [f for f in same if f.repo == repo]
        return next((f for f in said if f.mode == mode), said[0])
    raise ValueError(f"{setting} {value} stands on no card")
