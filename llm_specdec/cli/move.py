"""`llm specdec move, rename`: a pairing whose files or name changed, with all that is its own."""

from collections.abc import Iterator

import click

from llm_specdec import hub
from llm_specdec.adapter import mentions
from llm_specdec.checkpoint import Anatomy
from llm_specdec.cli.add import check_names
from llm_specdec.cli.output import confirm, done, json_option, on_terminal, warn, yes_option
from llm_specdec.console.text import echo
from llm_specdec.drafters.recognise import read
from llm_specdec.drafters.table import KINDS, words
from llm_specdec.errors import CheckFailed, PairingError, SpecdecError, UsageError
from llm_specdec.pairings import anew, registry
from llm_specdec.pairings.choose import Choice, choose
from llm_specdec.pairings.registry import Pairing, Registry
from llm_specdec.prefix_cache import limits


@click.command(name="move", short_help="Tell where a pairing's files are now")
@click.argument("name")
@click.option("--target", metavar="PATH_OR_REPO", help="Where the target is now")
@click.option("--drafter", metavar="PATH_OR_REPO", help="Where the drafter is now")
@yes_option
@json_option
def move_command(
    name: str, target: str | None, drafter: str | None, yes: bool, as_json: bool
) -> None:
    """Tell where a pairing's files are now. Settings and profiles stay.

    The files are checked as add checks them. Where they are not those that were added,
    it says so and asks; without a terminal --yes is needed.

    \b
    Examples:
      llm specdec move qwen --target ~/models/Qwen3.8-27B-4bit
      llm specdec move qwen --drafter z-lab/Qwen3.8-27B-DFlash2
    """
    if not (target or drafter):
        raise UsageError("say where the files are now: --target, --drafter or both")
    found = registry.load()
    pairing = found.pairing(name)
    if pairing.served:
        pairing.check_local(f"be moved: {anew.command(pairing)} with its new address")
    chosen = _chosen(found, pairing, target, drafter)
    differences = list(_differences(pairing, chosen))
    if differences and not yes:
        _ask(pairing.name, differences)
    with registry.change(pairing.name) as table:
        table.update(target=chosen.target, fingerprints=chosen.fingerprints)
        if drafter:
            table["drafter"] = chosen.drafter
        if pairing.fingerprints != chosen.fingerprints:
            table.pop("head", None)  # calibrated on other weights
    data = {
        "name": pairing.name,
        "target": chosen.target,
        "drafter": chosen.drafter,
        "differences": differences,
    }
    done(_moved(pairing, chosen, differences), data, as_json)


def _chosen(found: Registry, pairing: Pairing, target: str | None, drafter: str | None) -> Choice:
    """Target and drafter where they are now. Raises SpecdecError where they do not fit."""
    if drafter and pairing.drafter in words():
        raise UsageError(f"{pairing.name} has no drafter of its own files: leave --drafter out")
    place = drafter or pairing.drafter
    lent = place not in words() and KINDS[pairing.kind].in_target
    chosen = choose(found, target or pairing.target, place, force=True, lent=lent)
    if chosen.kind != pairing.kind:
        raise PairingError(
            f"{chosen.drafter} is a drafter of kind {chosen.kind}, {pairing.name} has one of kind "
            f"{pairing.kind}: {anew.with_drafter(pairing, chosen.drafter)} takes another drafter"
        )
    return chosen


def _differences(pairing: Pairing, chosen: Choice) -> Iterator[str]:
    """How the files differ from those that were added, a line for target and drafter each."""
    places = {
        "target": (pairing.target, chosen.target),
        "drafter": (pairing.drafter, chosen.drafter),
    }
    for role, now in chosen.fingerprints.items():
        before = pairing.fingerprints.get(role)
        if before and before != now:
            yield f"the {role} is not the one that was added: {_what_differs(*places[role])}"


def _what_differs(before: str, after: str) -> str:
    """In figures, where the old files are still there."""
    try:
        old, new = (read(hub.locate(place, offline=True)) for place in (before, after))
    except SpecdecError:
        return "its weights, configuration or tokenizer are others"
    figures = {
        "architecture": (old.architecture, new.architecture),
        "layers": (old.layers, new.layers),
        "hidden size": (old.hidden_size, new.hidden_size),
        "vocabulary": (old.vocab_size, new.vocab_size),
        "precision": (_precision(old), _precision(new)),
        "context": (old.positions.native, new.positions.native),
    }
    said = [f"{what} was {a}, is {b}" for what, (a, b) in figures.items() if a != b]
    return ", ".join(said) or "of the same shape, with other weights or another tokenizer"


def _precision(found: Anatomy) -> str:
    packed = found.quantisation
    return f"{packed.bits} bits" if packed else found.dtype


def _ask(name: str, differences: list[str]) -> None:
    """Raises CheckFailed where nobody can be asked."""
    if not on_terminal():
        raise CheckFailed(f"nothing was moved: {'; '.join(differences)}; --yes moves it anyway")
    for difference in differences:
        echo(difference, err=True)
    confirm(f"Let {name} use it?")


def _moved(pairing: Pairing, chosen: Choice, differences: list[str]) -> str:
    said = [
        f"{role} is now {after}"
        for role, before, after in (
            ("target", pairing.target, chosen.target),
            ("drafter", pairing.drafter, chosen.drafter),
        )
        if before != after
    ]
    files = (
        f"bench and card are of the files before: llm specdec bench {pairing.name}, "
        f"llm specdec update {pairing.name}"
        if differences
        else "the same files as before"
    )
    return f"{pairing.name}: {', '.join(said) or 'nothing moved'}; {files}"


@click.command(name="rename", short_help="Give a pairing another name")
@click.argument("old")
@click.argument("new")
@json_option
def rename_command(old: str, new: str, as_json: bool) -> None:
    """Give a pairing another name. Its profiles, aliases and settings, its benches and its
    prefix cache go with it, and so do llm's default model and stored options.

    Says what still names it: llm's aliases and templates. Runs that are logged keep the
    name they had.

    \b
    Example:
      llm specdec rename qwen qwen-27b
    """
    found = registry.load()
    pairing = found.pairing(old)
    if pairing.name != old:
        raise UsageError(f"{old} is an alias of {pairing.name}: rename that")
    check_names(found, new, (), replacing=False)
    names = {old: new, **{f"{old}/{profile}": f"{new}/{profile}" for profile in pairing.profiles}}
    registry.rename(old, new)
    _carry(old, new)
    carried = mentions.rename(names)
    left = mentions.of(names)
    text = "\n".join([f"{old} is now {new}: llm -m {new}", *carried, *left])
    done(text, {"old": old, "new": new, "ids": names, "left": left}, as_json)


def _carry(old: str, new: str) -> None:
    """Take benches and the prefix cache along."""
    from llm_specdec.bench import store

    if store.default_path().exists():
        store.Store().rename(old, new)
    try:
        limits.folder(registry.load()).rename(old, new)
    except OSError as error:
        warn(f"prompts of {old} are read anew, their prefix cache cannot be moved: {error}")
