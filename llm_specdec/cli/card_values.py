"""Reading a target's card for a pairing, and taking what it recommends only when told."""

import sys

import click

from llm_specdec import cards, hub
from llm_specdec.cards import Card, Disagreement, stored
from llm_specdec.cli.output import show_value, warn
from llm_specdec.console.text import confirm, echo
from llm_specdec.errors import HubError, UsageError
from llm_specdec.settings import card_layers

yes_option = click.option(
    "--yes", is_flag=True, help="Accept the card's unambiguous values without asking"
)


def read_card(name: str, target: str) -> Card | None:
    """The cards of a target and its bases; None, with a warning, where the hub is not there."""
    try:
        card = cards.read(hub.read_card(target), target)
    except HubError as error:
        warn(f"the card was not read: {error}; llm specdec update {name} tries again")
        return None
    for note in card.notes:
        warn(note)
    return card


def agreed(card: Card, yes: bool) -> bool:
    """Whether its values are to be taken: told so, or asked and answered on a terminal."""
    if yes or not any(card.effective.values()):
        return yes
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    for line in values(card):
        echo(f"card: {line}", err=True)
    return confirm("Take these values?", default=True)


def report(name: str, card: Card, taken: bool) -> list[str]:
    """What was taken from the card, or could be, and what it leaves open."""
    said = list(values(card))
    if said and taken:
        lines = [f"card: taken: {line}" for line in said]
    else:
        lines = [f"card: recommends {line}" for line in said]
        lines += [f"card: not taken; llm specdec update {name} --yes does"] if said else []
    lines += [f"card: left open: {disputed(entry)}" for entry in card.disagreements]
    lines += [f"card: rejects {f.setting} ({f.repo} README.md:{f.line})" for f in card.forbidden]
    shown = sum(line.outcome == "shown" for line in card.lines)
    if shown:
        which = "a line is" if shown == 1 else f"{shown} lines are"
        lines.append(f"card: {which} yours to read; llm specdec card {card.target} shows them")
    return lines + [
        f"card: {broken.repo} {broken.file} is unreadable: {broken.reason}"
        for broken in card.unreadable
    ]


def values(card: Card) -> list[str]:
    """One line for each mode: the values that may be taken, each with its place."""
    lines = []
    for mode in card.effective:
        base, own = stored.layers(card, mode)
        said = []
        for finding in {**base, **own}.values():
            try:
                value = show_value(card_layers.value_of(finding))
            except UsageError:
                continue
            said.append(f"{finding.setting} {value} ({card_layers.place(finding)})")
        if said:
            lines.append(("" if mode == "default" else f"{mode}: ") + ", ".join(said))
    return lines


def disputed(entry: Disagreement) -> str:
    mode = f", {entry.mode}" if entry.mode else ""
    return f"{entry.setting}{mode}: {' or '.join(map(show_value, entry.values))}"
