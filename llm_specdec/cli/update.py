"""`llm specdec update`: what a newer card would change for a pairing."""

from typing import Any, NamedTuple

import click

from llm_specdec import cards, hub
from llm_specdec.cards import Card, stored
from llm_specdec.cli import card_values
from llm_specdec.cli.output import json_option, print_json, show_value
from llm_specdec.console.text import echo
from llm_specdec.pairings import registry
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
    new = cards.read(hub.read_card(pairing.target), pairing.target)
    kept = card_layers.read(pairing) if pairing.card else None
    changes = compare(kept.card if kept and kept.taken else None, new)
    rejections = _rejections(kept.card if kept else None, new)
    pending = bool(changes or rejections)
    taken = pending and card_values.agreed(new, yes)
    if taken:
        with registry.change(name) as table:
            table["card"] = stored.as_toml(stored.dump(new, taken=True))
    if as_json:
        listed = [change._asdict() for change in changes]
        data = {"name": pairing.name, "changes": listed, "rejections": rejections, "taken": taken}
        print_json(data)
        return
    for change in changes:
        mode = "" if change.mode == "default" else f"{change.mode}: "
        old, value = (show_value(v) for v in (change.old, change.new))
        echo(f"{mode}{change.setting} {old} → {value}")
    for rejection in rejections:
        echo(rejection)
    for entry in new.disagreements:
        echo(f"left open: {card_values.disputed(entry)}")
    if not pending:
        echo(f"{pairing.name}: the card says what is stored", err=True)
    elif not taken:
        echo(f"nothing changed: llm specdec update {pairing.name} --yes takes it", err=True)


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
