"""`llm specdec add --served`: ask a server what it is, and register what it runs."""

import re
from dataclasses import replace
from datetime import UTC, datetime

from llm_specdec import cards, hub
from llm_specdec.cards import Card, stored
from llm_specdec.cli import card_values
from llm_specdec.cli.entries import put
from llm_specdec.cli.output import print_json, warn
from llm_specdec.cli.show import show_served
from llm_specdec.console.progress import progress
from llm_specdec.console.text import echo
from llm_specdec.errors import UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.choose import as_stored
from llm_specdec.pairings.registry import Pairing, Served


def add(
    name: str,
    place: Served,
    target: str | None,
    aliases: tuple[str, ...],
    card_of: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """place.engine: an engine, or auto. card_of: whose card it is, a folder or repository; a
    server does not say."""
    from llm_specdec.backends.served import detection
    from llm_specdec.backends.served.engines import ENGINES

    place = replace(place, url=address(place.url))
    with progress(f"asking {place.url} what it is"):
        found = detection.detect(place)
    served = replace(place, engine=found.engine, version=found.version)
    pairing = Pairing(
        name,
        target=detection.target_of(found, target, served),
        aliases=list(aliases),
        added=datetime.now(UTC).isoformat(timespec="seconds"),
        served=served,
    )
    card = _card(card_of) if card_of else None
    taken = card is not None and card_values.agreed(card, yes)
    with registry.edit() as document:
        put(document, pairing, None, stored.dump(card, taken=taken) if card else {})
    engine = ENGINES[found.engine]
    if engine.warning:
        warn(engine.warning)
    if as_json:
        print_json(registry.load().pairing(name).to_dict())
        return
    drafts = {True: "it drafts", False: "it does not draft", None: "it does not say if it drafts"}
    echo(f"{name}: {pairing.target} on {show_served(served)}")
    echo(f"engine {found.engine} ({found.how}); {drafts[found.drafts]}")
    echo(f"its answers tell: {engine.tells}")
    for line in card_values.report(name, card, taken) if card else ():
        echo(line)
    echo(f"try it: llm -m {name} 'hello'")


def _card(whose: str) -> Card:
    """Raises HubError: a card that was asked for by name is not left out."""
    whose = as_stored(whose)
    card = cards.read(hub.read_card(whose), whose)
    for note in card.notes:
        warn(note)
    return card


def address(url: str) -> str:
    """The address as it is stored; most engines have their API under /v1. Raises UsageError."""
    url = url.rstrip("/")
    if not re.fullmatch(registry.ADDRESS, url):
        raise UsageError(
            "--served takes an address such as http://host:8000/v1, without user, password or "
            "query: keys are for llm keys, and --key names one"
        )
    return url if url.count("/") > 2 else f"{url}/v1"
