"""Which value of a setting holds, and which layer gave it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llm_specdec.errors import UsageError
from llm_specdec.settings.known import check, find, parse
from llm_specdec.settings.layers import Against, Layer, Resolved, Value, stack

if TYPE_CHECKING:
    from llm_specdec.pairings.registry import Pairing


@dataclass(frozen=True)
class Resolution:
    """Every setting; owner decisions in effect; values in effect that the card speaks against;
    what the card rejects (settings, `system`, `greedy`) and where."""

    settings: dict[str, Resolved]
    deviations: list[dict[str, Any]]
    against: list[Against] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)

    @property
    def warnings(self) -> list[str]:
        return [entry.message for entry in self.against]

    @property
    def values(self) -> dict[str, Any]:
        return {name: setting.value for name, setting in self.settings.items()}


def resolve(
    pairing: "Pairing",
    profile: str | None = None,
    stored: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    model_id: str | None = None,
) -> Resolution:
    """What every setting is for one model id, and why.

    `stored` are llm's own stored options (texts), `options` those of one call (texts or typed;
    None is unset). `model_id` is the one asked for: the bare name has its default profile, and
    stored options of its own. Raises UsageError where one of these is not a value of its setting,
    and RegistryError where the stored card cannot be read.
    """
    model_id = model_id or (f"{pairing.name}/{profile}" if profile else pairing.name)
    above: list[Layer] = [
        _own(pairing, "pairing", ("settings",), pairing.settings),
        _own(pairing, "profile", ("profiles", profile or ""), _profile(pairing, profile)),
        _stored(stored or {}, model_id),
        _given(options or {}, "-o", "-o"),
    ]
    if not pairing.card:
        found = stack(above)
        return Resolution(found, _deviations(pairing, profile, found))
    from llm_specdec.settings import card_layers  # imported where a card is stored

    card = card_layers.read(pairing)
    found = stack([*card_layers.layers(card, "default"), *above])
    mode = _MODES.get(found["thinking"].value or "", "thinking")
    if mode != "default":
        found = stack([*card_layers.layers(card, mode), *above])
    deviations = _deviations(pairing, profile, found)
    excused = {deviation["setting"] for deviation in deviations}
    return Resolution(found, deviations, card_layers.against(card, found, excused), card.rejected)


# The card's mode for a value of `thinking`; an effort word is thinking.
_MODES = {"": "default", "off": "non-thinking"}


def _profile(pairing: "Pairing", profile: str | None) -> Mapping[str, Any]:
    return pairing.profiles[profile].settings if profile else {}


def _own(
    pairing: "Pairing", layer: str, table: tuple[str, ...], settings: Mapping[str, Any]
) -> Layer:
    return {
        name: Value(value, layer, pairing.where(*table, name)) for name, value in settings.items()
    }


def _stored(stored: Mapping[str, Any], model_id: str) -> Layer:
    """llm stores any text as an option's value: what is wrong comes up only here."""
    layer: dict[str, Value] = {}
    for name, value in stored.items():
        try:
            layer |= _given({name: value}, "stored option", f"llm models options set {model_id}")
        except UsageError as error:
            mend = f"llm models options clear {model_id} {name}"
            raise UsageError(f"{error}; it is a stored option: {mend}") from None
    return layer


def _given(given: Mapping[str, Any], layer: str, command: str) -> Layer:
    return {
        name: Value(_option(name, value), layer, f"{command} {name}")
        for name, value in given.items()
        if value is not None
    }


def _option(name: str, value: Any) -> Any:
    if not find(name).option:
        raise UsageError(f"{name} is no option of a call: set it on the pairing or a profile")
    return parse(name, value) if isinstance(value, str) else check(name, value)


def _deviations(
    pairing: "Pairing", profile: str | None, settings: Mapping[str, Resolved]
) -> list[dict[str, Any]]:
    """Owner decisions against the card that are in effect."""
    reasons = {"pairing": pairing.deviations}
    if profile:
        reasons["profile"] = pairing.profiles[profile].deviations
    return [
        {"setting": name, "value": top.value, "layer": top.layer, "reason": reason}
        for name, top in settings.items()
        if (reason := reasons.get(top.layer, {}).get(name))
    ]


def against_system(resolution: Resolution) -> str | None:
    """What to say to a system prompt (-s) that the card rejects and no deviation allows."""
    place = resolution.rejected.get("system")
    if not place or any(d["setting"] == "system" for d in resolution.deviations):
        return None
    return f"a system prompt goes against the card: {place} rejects it"
