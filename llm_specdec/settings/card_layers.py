"""A stored card as layers of settings, and what it holds against the values in effect."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_specdec.cards import Card, Finding, stored
from llm_specdec.errors import RegistryError, UsageError
from llm_specdec.settings.known import SETTINGS, check
from llm_specdec.settings.layers import Against, Layer, Resolved, Value

if TYPE_CHECKING:
    from llm_specdec.pairings.registry import Pairing

ABOVE = ("pairing", "profile", "stored option", "-o")


@dataclass(frozen=True)
class Stored:
    card: Card
    taken: bool
    rejected: dict[str, str]  # setting, system or greedy → the place that rejects it


def read(pairing: "Pairing") -> Stored:
    """Raises RegistryError, naming the place, where the file's table is not a card."""
    try:
        card, taken = stored.load(pairing.card)
    except ValueError as error:
        raise RegistryError(
            f"{pairing.where('card')}: pairings.{pairing.name}.card cannot be read ({error}): "
            "take the table out of the file"
        ) from error
    return Stored(card, taken, _rejected(card))


def speaks_of(pairing: "Pairing") -> set[str]:
    """Settings about which the stored card says anything; none without a card."""
    if not pairing.card:
        return set()
    card = read(pairing).card
    said = {
        *(entry.setting for entry in card.recommended),
        *(entry.setting for entry in card.required),
        *(entry.setting for entry in card.forbidden),
    }
    return {"temperature" if setting == "greedy" else setting for setting in said}


def _rejected(card: Card) -> dict[str, str]:
    """What is rejected, unless a nearer repository recommends that very setting."""
    rejected: dict[str, str] = {}
    for entry in card.forbidden:
        about = "temperature" if entry.setting == "greedy" else entry.setting
        if not _overridden(card, about, entry.repo):
            rejected.setdefault(entry.setting, f"{entry.repo} README.md:{entry.line}")
    return rejected


def _overridden(card: Card, setting: str, repo: str) -> bool:
    """Whether a repository nearer than `repo` recommends a value of the setting."""
    lineage = list(card.lineage)
    nearer = lineage[: lineage.index(repo)] if repo in lineage else []
    return any(f.setting == setting and f.repo in nearer for f in card.recommended)


def layers(kept: Stored, mode: str) -> list[Layer]:
    """Base card and card, lowest first; empty where the values were not taken."""
    if not kept.taken:
        return []
    base, own = stored.layers(kept.card, mode)
    return [_layer(base, "base card"), _layer(own, "card")]


def _layer(findings: Mapping[str, Finding], layer: str) -> Layer:
    values = {}
    for name, finding in findings.items():
        try:
            values[name] = Value(value_of(finding), layer, place(finding))
        except UsageError:
            continue  # `card` shows it; no run can use it
    return values


def value_of(finding: Finding) -> Any:
    """The value as the setting spells it. Raises UsageError where it is out of range."""
    value: Any = finding.value
    if finding.setting == "top_k" and value == -1:
        value = 0  # how vLLM spells off
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a number of any setting is given back as the setting has it
    return check(finding.setting, value)


def place(finding: Finding) -> str:
    line = f":{finding.line}" if finding.line else ""
    return f"{finding.repo} {finding.file}{line}"


def against(kept: Stored, found: Mapping[str, Resolved], excused: Collection[str]) -> list[Against]:
    """Values in effect that the card rejects, or that replace one it calls essential."""
    entries = []
    for name, where in kept.rejected.items():
        setting = "temperature" if name == "greedy" else name
        if setting in found and setting not in excused and _breaks(name, found[setting]):
            entries.append(_entry(setting, found[setting], f"{where} rejects it"))
    for needed in kept.card.required:
        setting, where = needed.setting, f"{needed.repo} README.md:{needed.line}"
        if setting in excused or setting in kept.rejected:
            continue
        if found[setting].layer not in ABOVE or _overridden(kept.card, setting, needed.repo):
            continue
        if found[setting].value not in _recommended(kept.card, setting):
            why = f"{where} calls {needed.value} essential"
            entries.append(_entry(setting, found[setting], why))
    return entries


def _breaks(rejected: str, top: Resolved) -> bool:
    if rejected == "greedy":
        return bool(top.value == 0)
    neutral = {"system": ("allow", "forbid"), "thinking": (None, "off")}
    return top.value not in neutral.get(rejected, (SETTINGS[rejected].default,))


def _recommended(card: Card, setting: str) -> set[Any]:
    found = {f.value for f in card.recommended if f.setting == setting}
    return found | {f.value for f in card.required if f.setting == setting}


def _entry(setting: str, top: Resolved, why: str) -> Against:
    where = top.source if top.layer == "-o" else f"{top.layer}, {top.source}"
    said = f"{setting} {top.value} ({where}) goes against the card: {why}"
    settles = "; --deviation WHY settles it" if top.layer in ("pairing", "profile") else ""
    return Against(setting, said + settles)
