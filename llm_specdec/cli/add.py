"""`llm specdec add`: check a target and a drafter, and register them as a pairing."""

import shlex
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from llm_specdec import settings
from llm_specdec.cards import Card, stored
from llm_specdec.cli import add_served, card_values, lost
from llm_specdec.cli.entries import put
from llm_specdec.cli.output import json_option, print_json, typed, warn
from llm_specdec.cli.pairings import other_models
from llm_specdec.cli.show import reader, show_head
from llm_specdec.console.progress import progress
from llm_specdec.console.text import echo
from llm_specdec.drafters.table import KINDS, words
from llm_specdec.errors import SpecdecError, UsageError
from llm_specdec.hub import is_local
from llm_specdec.pairings import registry
from llm_specdec.pairings.choose import Choice, choose
from llm_specdec.pairings.registry import Pairing, Registry


@click.command(name="add", short_help="Register a target and its drafter as an llm model")
@click.argument("name")
@click.option(
    "--target",
    metavar="PATH_OR_REPO",
    help="The model that answers; with --served its name on the server, if that has several",
)
@click.option(
    "--drafter",
    default="auto",
    show_default=True,
    metavar="|".join(["PATH_OR_REPO", *reversed(words()), "auto"]),
    help="What proposes tokens. auto: the target's own head, otherwise a drafter that is "
    "registered for this target, otherwise lookup",
)
@click.option(
    "--head-from",
    metavar="PATH_OR_REPO",
    help="Draft with the prediction head of another build of the target, or of a repository of "
    "its own; nothing is copied",
)
@click.option("--draft-tokens", metavar="N|auto", help="Tokens to draft per round; auto by default")
@click.option("--drafter-bits", type=click.Choice(["4", "8"]), help="Quantise the drafter on load")
@click.option(
    "--drafter-group-size",
    type=click.Choice(["32", "64", "128"]),
    help="Group size for --drafter-bits",
)
@click.option(
    "--alias", "aliases", multiple=True, metavar="ALIAS", help="Another name; may be repeated"
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace a pairing of this name (settings and profiles stay); allow an external "
    "drafter for a target that has its own head",
)
@click.option(
    "--calibrate/--no-calibrate",
    default=True,
    help="Load the model to find out which hidden states its drafter expects",
)
@click.option(
    "--served", metavar="URL", help="A server that runs the target, such as http://host:8000/v1"
)
@click.option(
    "--engine",
    type=click.Choice(["auto", *registry.ENGINES]),
    default="auto",
    show_default=True,
    help="What the server is; auto asks it",
)
@click.option("--key", metavar="ALIAS", help="The server's key, by its name in llm keys")
@click.option(
    "--card",
    "card_of",
    metavar="PATH_OR_REPO",
    help="Whose card is that of the model that the server runs",
)
@click.option(
    "--tokenizer",
    metavar="PATH_OR_REPO",
    help="Whose tokenizer is that of the model that the server runs: counts prompts",
)
@click.option("--insecure", is_flag=True, help="Send the key in plain http to another host")
@card_values.yes_option
@json_option
def add_command(
    name: str,
    target: str | None,
    drafter: str,
    head_from: str | None,
    draft_tokens: str | None,
    drafter_bits: str | None,
    drafter_group_size: str | None,
    aliases: tuple[str, ...],
    force: bool,
    calibrate: bool,
    served: str | None,
    engine: str,
    key: str | None,
    card_of: str | None,
    tokenizer: str | None,
    insecure: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Register a target and its drafter as the llm model NAME.

    Reads the headers of both checkpoints: the drafter must have the target's tokenizer and
    fit its shapes. Weights are loaded only where drafters of a kind differ in what they read
    of the target (prediction heads, EAGLE-3, assistants): each way is tried on two answers,
    and the best is kept. An external drafter for a target that has its own head is refused;
    --force adds it disabled until its gate passes (llm specdec bench NAME --gate 15).

    A finetune or merge often loses the head of its base. --head-from takes it from there.

    What the target's card recommends is stored with its source. It takes effect once you
    accept it, when asked on a terminal or with --yes. Where the card contradicts itself,
    nothing is set.

    With --served, a server runs the target, and drafts where it was started so: vLLM,
    SGLang, llama-server, mlx_lm.server, mlx_vlm.server, LM Studio, or anything that speaks
    OpenAI's API. Settings, profiles and receipts are as of any pairing.

    \b
    Examples:
      llm specdec add qwen --target mlx-community/Qwen3.8-27B-4bit
      llm specdec add smol --target ./smollm2 --drafter ./drafter --draft-tokens 4
      llm specdec add mine --target ./finetune --head-from Qwen/Qwen3.6-27B
      llm specdec add big --served http://host:8000/v1 --card Qwen/Qwen3.8-27B
    """
    found = registry.load()
    check_names(found, name, aliases, replacing=force)
    _check_together(served, target)
    if served:
        place = registry.Served(served, engine, None, key, insecure, tokenizer)
        add_served.add(name, place, target, aliases, card_of, yes, as_json)
        return
    assert target
    tokens = settings.parse("draft_tokens", draft_tokens) if draft_tokens else None
    with _reading(target, head_from or drafter):
        chosen = choose(found, target, head_from or drafter, force=force, lent=bool(head_from))
    if drafter_bits:
        check_bits(chosen)
    bits = int(drafter_bits) if drafter_bits else chosen.bits
    if drafter_group_size and not bits:
        raise UsageError("--drafter-group-size needs --drafter-bits")
    pairing = Pairing(
        name,
        target=chosen.target,
        drafter=chosen.drafter,
        kind=chosen.kind,
        drafter_bits=bits,
        drafter_group_size=int(drafter_group_size) if drafter_group_size else chosen.group_size,
        aliases=list(aliases),
        enabled=not chosen.disabled_reason,
        disabled_reason=chosen.disabled_reason,
        added=datetime.now(UTC).isoformat(timespec="seconds"),
        fingerprints=chosen.fingerprints,
    )
    if calibrate and KINDS[chosen.kind].readings:
        pairing = replace(pairing, head=head_findings(pairing))
    with progress(f"reading the card of {chosen.target}"):
        card = card_values.read_card(name, chosen.target)
    taken = card is not None and card_values.agreed(card, yes)
    with registry.edit() as document:
        put(document, pairing, tokens, stored.dump(card, taken=taken) if card else {})
    report(registry.load().pairing(name), chosen, card, as_json)


LOCAL_ONLY = (
    "drafter", "head_from", "draft_tokens", "drafter_bits", "drafter_group_size", "calibrate",
)  # fmt: skip
SERVED_ONLY = ("engine", "key", "card_of", "tokenizer", "insecure")


def _check_together(served: str | None, target: str | None) -> None:
    """Raises UsageError for options that mean nothing together."""
    given = typed()
    for name in LOCAL_ONLY if served else SERVED_ONLY:
        if name in given:
            which = "with" if served else "without"
            raise UsageError(f"{given[name]} means nothing {which} --served")
    if "head_from" in given and "drafter" in given:
        raise UsageError("--drafter and --head-from both name what drafts: give one of them")
    if not served and not target:
        raise UsageError("give --target, or --served for a model that a server runs")


def _reading(target: str, drafter: str) -> AbstractContextManager[object]:
    """Progress while files are read; a download shows its own."""
    files = [target] if drafter in (*words(), "auto") else [target, drafter]
    return progress(f"reading {target}") if all(map(is_local, files)) else nullcontext()


def check_bits(chosen: Choice) -> None:
    """Raises UsageError where there is nothing that --drafter-bits could quantise."""
    kind = KINDS[chosen.kind]
    if not kind.has_weights:
        raise UsageError(f"--drafter-bits needs a drafter with weights, and {kind.name} has none")
    if chosen.stored_bits:
        named = kind.lane_words if chosen.drafter == kind.name else chosen.drafter
        raise UsageError(
            f"{named} is stored in {chosen.stored_bits} bits already: "
            "leave --drafter-bits out, or take its 16-bit build"
        )


def head_findings(pairing: Pairing) -> dict[str, Any]:
    """Which hidden states suit the head; nothing, and a warning, where that cannot be tried:
    the head then reads what its layout says."""
    from llm_specdec import memory
    from llm_specdec.drafters.recognise import read
    from llm_specdec.hub import locate

    folder = locate(pairing.target, offline=True)
    lends = None if pairing.drafter in words() else locate(pairing.drafter, offline=True)
    bits, group_size = pairing.drafter_bits, pairing.drafter_group_size
    try:
        need = memory.estimate(
            read(folder),
            read(lends) if lends else None,
            tokens=512,
            lane=pairing.kind,
            drafter_bits=bits,
            drafter_group_size=group_size,
        )
        memory.check(need, memory.budget())
        from llm_specdec.backends.local import sessions
        from llm_specdec.engine.session import Weights

        with progress(f"loading {pairing.target}") as change:
            session = sessions.load(Weights(folder, pairing.kind, lends, bits, group_size))
            change("trying which hidden states the head expects")
            reads, acceptance = KINDS[pairing.kind].calibrate(session)
    except SpecdecError as error:
        warn(f"the head was not tried with this target: {error}")
        return {}
    return {"reads": reads, "acceptance": {key: round(x, 3) for key, x in acceptance.items()}}


def check_names(found: Registry, name: str, aliases: tuple[str, ...], *, replacing: bool) -> None:
    """Raises UsageError where a name is odd, taken here, or taken by another llm model."""
    taken = registry.names_in_use(found.pairings)
    for claimed in (name, *aliases):
        if not registry.is_name(claimed):
            raise UsageError(f"{claimed!r} is no name: {registry.NAMES_ARE}")
        owner = taken.get(claimed)
        if owner and not (replacing and owner == name):
            hint = "--force replaces it" if owner == claimed == name else "choose another"
            raise UsageError(f"{claimed} already stands for pairing {owner}: {hint}")
    if len({name, *aliases}) <= len(aliases):
        raise UsageError("name and aliases must all differ")
    others = other_models(found)
    for claimed in (name, *aliases):
        if claimed in others:
            raise UsageError(f"{claimed} is already an llm model or alias: choose another name")


def report(pairing: Pairing, choice: Choice, card: Card | None, as_json: bool) -> None:
    for warning in choice.warnings:
        warn(warning)
    if choice.lost:
        warn(lost.advice(choice.lost, choice.target, pairing.name))
    if as_json:
        print_json(pairing.to_dict())
        return
    named = "head from" if KINDS[pairing.kind].in_target else "drafter"
    drafter = "" if pairing.drafter == pairing.kind else f", {named} {pairing.drafter}"
    echo(f"{pairing.name}: target {pairing.target}{drafter}")
    echo(f"lane {pairing.kind} ({choice.why}), draft tokens {pairing.draft_tokens}")
    if pairing.head:
        echo(f"{reader(pairing)} reads {show_head(pairing)}")
    if not pairing.enabled:
        echo(f"disabled: {pairing.disabled_reason}: llm specdec bench {pairing.name} --gate 15")
    taken = bool(pairing.card.get("taken"))
    for line in card_values.report(pairing.name, card, taken) if card else []:
        echo(line)
    if choice.published:
        echo(f"published for it: {', '.join(choice.published)}")
        options = ["--force", "--target", pairing.target, "--drafter", choice.published[0]]
        echo(f"to take one: {shlex.join(['llm', 'specdec', 'add', pairing.name, *options])}")
    echo(f"try it: llm -m {pairing.name} 'hello'")
