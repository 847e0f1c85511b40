"""`llm specdec show`: one pairing with all that is stored for it."""

from typing import TYPE_CHECKING

import click

from llm_specdec import settings
from llm_specdec.cli.output import json_option, print_json, show_value, table
from llm_specdec.console.progress import progress
from llm_specdec.console.text import echo
from llm_specdec.drafters.table import KINDS
from llm_specdec.errors import UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing, Profile, Served

if TYPE_CHECKING:
    from llm_specdec.backends import Plan

# Keys that lines of their own show, and those that mean nothing for a served pairing.
BELOW = {"settings", "deviations", "profiles", "card", "head", "fingerprints", "served"}
LOCAL = {"drafter", "kind", "draft_tokens", "drafter_bits", "drafter_group_size"}


@click.command(name="show", short_help="Show everything that is stored for a pairing")
@click.argument("name")
@click.option("--costs", "with_costs", is_flag=True, help="What its rounds cost on this machine")
@click.option("--recalibrate", is_flag=True, help="Measure those costs again")
@json_option
def show_command(name: str, with_costs: bool, recalibrate: bool, as_json: bool) -> None:
    """Show everything that is stored for a pairing.

    llm specdec explain says what a setting finally is, and why.

    \b
    Examples:
      llm specdec show qwen
      llm specdec show qwen --costs
    """
    pairing = registry.load().pairing(name)
    if with_costs or recalibrate:
        _show_costs(pairing, recalibrate, as_json)
        return
    data = pairing.to_dict()
    if as_json:
        print_json(data)
        return
    hidden = {*BELOW, *(LOCAL if pairing.served else ())}
    for key, value in data.items():
        if key not in hidden:
            echo(f"{key:<20}{show_value(value)}")
    _show_files(pairing)
    show_settings(pairing, "settings", pairing)
    for profile, own in pairing.profiles.items():
        show_settings(pairing, f"profile {profile}", own)
    if pairing.card:
        _show_card(pairing)


def _show_files(pairing: Pairing) -> None:
    """Where it runs, which files it was added with, and how its drafter reads the target's."""
    if pairing.served:
        echo(f"{'served by':<20}{show_served(pairing.served)}")
        if pairing.served.tokenizer:
            echo(f"{'tokenizer':<20}{pairing.served.tokenizer}")
    if pairing.drafter != pairing.kind and KINDS[pairing.kind].in_target:
        echo(f"{'head from':<20}{show_value(pairing.drafter)}")
    for role, print_ in pairing.fingerprints.items():
        echo(f"{role + ' fingerprint':<20}{print_[:16]}")
    if pairing.head:
        echo(f"{reader(pairing) + ' reads':<20}{show_head(pairing)}")


def _show_card(pairing: Pairing) -> None:
    from llm_specdec.cli import card_values
    from llm_specdec.settings import card_layers

    kept = card_layers.read(pairing)
    echo("\n".join(card_values.report(pairing.name, kept.card, kept.taken)))


def show_served(served: Served) -> str:
    """Engine, address, and the name of the key, never the key."""
    version = f" {served.version}" if served.version else ""
    key = f", key {served.key} of llm keys" if served.key else ""
    return f"{served.engine}{version} at {served.url}{key}"


def reader(pairing: Pairing) -> str:
    """What it was that calibration chose for."""
    return "head" if KINDS[pairing.kind].in_target else "drafter"


def show_head(pairing: Pairing) -> str:
    """What calibration chose, and the acceptance that each choice gave."""
    head, names = pairing.head, KINDS[pairing.kind].readings
    rates = [f"{names[key]} {rate:.0%}" for key, rate in head.get("acceptance", {}).items()]
    return f"states {names[head['reads']]}" + (f" (accepted: {', '.join(rates)})" if rates else "")


def _show_costs(pairing: Pairing, anew: bool, as_json: bool) -> None:
    """Milliseconds of a verify pass and of a draft, at each context."""
    from llm_specdec.backends import local, plan
    from llm_specdec.backends.notices import shown

    pairing.check_local("show what rounds cost")
    ready = plan(pairing, None, settings.resolve(pairing))
    if ready.costs == "none":
        raise UsageError(f"{pairing.name} has no costs to show: {_no_costs(ready)}")
    local.admit(ready, 0)
    with progress(f"loading {pairing.name}") as change:
        session = shown(local.load(ready), tell=change)
        found = shown(local.round_costs(ready, session, anew, waits=True), tell=change)
    if found is None:
        raise UsageError(f"what {pairing.name} costs could not be measured on this machine")
    if as_json:
        print_json(found.as_json())
        return
    curves = {"verify": found.verify, **{f"draft ({kind})": c for kind, c in found.draft.items()}}
    rows = [("milliseconds", *(f"at {context} tokens" for context in found.contexts))]
    rows += [
        (f"{title} {x}", *(_shown_ms(curve.get(x)) for curve in several))
        for title, several in curves.items()
        for x in sorted(several[0])
    ]
    echo("\n".join(table(rows)))


def _no_costs(ready: "Plan") -> str:
    if ready.lane.state == "off":
        return f"its drafter is off ({ready.lane.reason})"
    tokens = ready.settings["draft_tokens"]
    return f"it always drafts {tokens} tokens; llm specdec set {ready.pairing} draft_tokens=auto"


def _shown_ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:.1f}"


def show_settings(pairing: Pairing, title: str, own: Pairing | Profile) -> None:
    """The settings of a pairing or of one of its profiles, with the reasons given for them."""
    from llm_specdec.settings import card_layers

    known = card_layers.speaks_of(pairing) if own.deviations else set()
    echo(f"{title}{':' if own.settings else ': none'}")
    for key, value in own.settings.items():
        about = "against the card" if key in known else "deviation"
        why = f"  ({about}: {own.deviations[key]})" if key in own.deviations else ""
        echo(f"  {key:<20} {show_value(value)}{why}")
