"""`llm specdec update`: what a newer card would change for a pairing."""

from typing import Any, NamedTuple

import click

from llm_specdec import cards, hub
from llm_specdec.cards import Card, stored
from llm_specdec.cli import card_values
from llm_specdec.cli.card_values import disputed
from llm_specdec.cli.output import done, json_option, on_terminal, show_value
from llm_specdec.console.progress import progress
from llm_specdec.console.text import confirm as ask
from llm_specdec.console.text import echo
from llm_specdec.errors import UsageError
from llm_specdec.pairings import anew, registry
from llm_specdec.pairings.registry import Pairing
from llm_specdec.settings import card_layers


class Change(NamedTuple):
    """mode: of the card; old and new: values, None where there is none."""

    mode: str
    setting: str
    old: Any
    new: Any


@click.command(name="update", short_help="Read the model card again and show what changed")
@click.argument("name")
@card_values.yes_option
@json_option
def update_command(name: str, yes: bool, as_json: bool) -> None:
    """Read the target's card again and show what changed. Nothing changes until you say so.

    The cards of its base models are read, too. --yes, or yes to the question on a
    terminal, stores them and accepts their unambiguous values.

    \b
    Examples:
      llm specdec update qwen
      llm specdec update qwen --yes
    """
    pairing = registry.load().pairing(name)
    whose = _whose_card(pairing)
    with progress(f"reading the card of {whose}"):
        new = cards.read(hub.read_card(whose), whose)
    kept = card_layers.read(pairing) if pairing.card else None
    changes = compare(kept.card if kept and kept.taken else None, new)
    rejections = _rejections(kept.card if kept else None, new)
    pending = bool(changes or rejections)
    shown = _shown(changes, rejections, new)
    if shown:
        echo("\n".join(shown), err=as_json)
    taken = pending and (yes or (on_terminal() and ask("Take these values?", default=True)))
    if taken:
        with registry.change(name) as table:
            table["card"] = stored.as_toml(stored.dump(new, taken=True))
    listed = [change._asdict() for change in changes]
    data = {"name": pairing.name, "changes": listed, "rejections": rejections, "taken": taken}
    done(_outcome(pairing.name, pending, taken), data, as_json)


def _whose_card(pairing: Pairing) -> str:
    """The target, or what `add --card` named for a served one. Raises UsageError."""
    if not pairing.served:
        return pairing.target
    if not pairing.card:
        raise UsageError(
            f"{pairing.name} is served, and whose card is its model's is not known: "
            f"{anew.command(pairing, card='PATH_OR_REPO')} says it"
        )
    return str(pairing.card["target"])


def _shown(changes: list[Change], rejections: list[str], new: Card) -> list[str]:
    """What the new card would change, before anybody is asked."""
    lines = []
    for change in changes:
        mode = "" if change.mode == "default" else f"{change.mode}: "
        old, value = (show_value(v) for v in (change.old, change.new))
        lines.append(f"{mode}{change.setting} {old} → {value}")
    return [*lines, *rejections, *(f"left open: {disputed(entry)}" for entry in new.disagreements)]


def _outcome(name: str, pending: bool, taken: bool) -> str:
    if not pending:
        return f"{name}: the card says what is stored"
    if taken:
        return f"{name}: taken; llm specdec explain {name} shows what holds"
    return f"nothing changed: llm specdec update {name} --yes takes it"


def compare(old: Card | None, new: Card) -> list[Change]:
    """Values that may be taken from the new card against those that were taken."""
    before = old.effective if old else {}
    changes = []
    for mode in dict.fromkeys([*before, *new.effective]):
        then, now = before.get(mode, {}), new.effective.get(mode, {})
        changes += [
            Change(mode, setting, then.get(setting), now.get(setting))
            for setting in dict.fromkeys([*then, *now])
            if then.get(setting) != now.get(setting)
        ]
    return changes


def _rejections(old: Card | None, new: Card) -> list[str]:
    before = {f.setting for f in old.forbidden} if old else set()
    now = {f.setting for f in new.forbidden}
    return [f"now rejects {setting}" for setting in sorted(now - before)] + [
        f"no longer rejects {setting}" for setting in sorted(before - now)
    ]
