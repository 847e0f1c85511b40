"""`llm specdec add --served`: ask a server what it is, and register what it runs."""

import re
from dataclasses import replace
from datetime import UTC, datetime

from llm_specdec import cards, hub, settings
from llm_specdec.cards import Card, stored
from llm_specdec.cli import card_values
from llm_specdec.cli.entries import put
from llm_specdec.cli.output import print_json, warn
from llm_specdec.cli.show import show_served
from llm_specdec.console.progress import progress
from llm_specdec.console.text import echo
from llm_specdec.errors import SpecdecError, UsageError
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

    place = replace(
        place,
        url=address(place.url),
        tokenizer=None if place.tokenizer is None else _tokenizer(place.tokenizer),
    )
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
    if served.tokenizer:
        _compare(pairing, served.tokenizer)
    engine = ENGINES[found.engine]
    if engine.warning:
        warn(f"{engine.warning}: {engine.cure}")
    if as_json:
        print_json(registry.load().pairing(name).to_dict())
        return
    drafts = {True: "it drafts", False: "it does not draft", None: "it does not say if it drafts"}
    echo(f"{name}: {pairing.target} on {show_served(served)}")
    echo(f"engine {found.engine} ({found.how}); {drafts[found.drafts]}")
    echo(f"its answers tell: {engine.tells}")
    if served.tokenizer:
        echo(f"its prompts are counted by the tokenizer of {served.tokenizer}")
    for line in card_values.report(name, card, taken) if card else ():
        echo(line)
    echo(f"try it: llm -m {name} 'hello'")


def _tokenizer(named: str) -> str:
    """As it is stored, its files here and found to load. Raises HubError, CheckpointError."""
    from llm_specdec.backends.served import tokenizers

    stored = as_stored(named)
    hub.locate(stored, files=tokenizers.FILES)
    with progress(f"loading the tokenizer of {stored}"):
        tokenizers.load(stored)
    return stored


def _compare(pairing: Pairing, named: str) -> None:
    """Warn where the server, asked for one token, counts the prompt otherwise."""
    from llm_specdec.backends import Request, Result, execute, plan
    from llm_specdec.backends.served import tokenizers

    assert pairing.served
    asked = Request(messages=[{"role": "user", "content": "Hello!"}], max_tokens=1)
    ready = plan(pairing, None, settings.resolve(pairing))
    try:
        with progress(f"asking {pairing.served.url} for one token"):
            here = tokenizers.prompt_tokens(ready, asked)
            (result,) = (event for event in execute(ready, asked) if isinstance(event, Result))
    except SpecdecError as error:
        warn(f"the tokenizer could not be compared with the server's: {error}")
        return
    if "prompt_tokens" not in result.untold and result.prompt_tokens != here:
        warn(tokenizers.differ(named, here, result.prompt_tokens))


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
