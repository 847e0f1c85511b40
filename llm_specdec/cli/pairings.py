"""`llm specdec list, set, remove, enable, disable`: what is in the registry."""

from typing import TYPE_CHECKING

import click

from llm_specdec import memory
from llm_specdec.adapter import mentions
from llm_specdec.cli.key_values import (
    assignments_argument,
    changed,
    changed_text,
    check_thinking,
    deviation_option,
    parse_settings,
    unset_option,
    warn_forbidden,
    warn_shadowed,
    warn_silent_card,
    write_settings,
)
from llm_specdec.cli.output import (
    confirm,
    counted,
    done,
    json_option,
    on_terminal,
    print_json,
    table,
    warn,
    yes_option,
)
from llm_specdec.console.sizes import gigabytes
from llm_specdec.console.text import echo
from llm_specdec.drafters.table import KINDS, words
from llm_specdec.errors import CheckFailed, LogError, SpecdecError, UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import BROKEN, GATE_FIRST, VETOED, Pairing
from llm_specdec.prefix_cache import limits
from llm_specdec.receipts import SERVED

if TYPE_CHECKING:
    from llm_specdec.bench.last_verdict import Standing


@click.command(name="list", short_help="List the pairings")
@json_option
def list_command(as_json: bool) -> None:
    """List the pairings, one per line. Long paths lose their beginning.

    A profile marked * goes against the model's card on purpose; llm specdec explain
    says why. A lane in brackets is disabled: the target runs alone.

    \b
    Examples:
      llm specdec list
      llm specdec list --json | jq -r '.[].name'
    """
    found = registry.load()
    for problem in found.problems.values():
        warn(problem)
    pairings = list(found.pairings.values())
    benched = _benched(found)
    for name, standing in benched.items():
        if standing.stale:
            warn(f"{name}: {standing.line()}")
    if as_json:
        helpers = _listed_elsewhere(found)
        listed = [
            {
                **p.to_dict(),
                "helper": p.drafter in helpers,
                "bench": benched[p.name]._asdict() if p.name in benched else None,
                "weight_bytes": weight_bytes(p),
            }
            for p in pairings
        ]
        print_json(listed)
    elif pairings:
        echo("\n".join(_list_table(pairings, _listed_elsewhere(found))))
    else:
        echo("no pairings yet: llm specdec add NAME --target PATH_OR_REPO", err=True)


def _benched(found: registry.Registry) -> dict[str, "Standing"]:
    """pairing → its standing; none, with a warning, where the bench history cannot be read."""
    from llm_specdec.bench.last_verdict import standings

    try:
        return standings(found)
    except LogError as error:
        warn(str(error))
        return {}


def _list_table(pairings: list[Pairing], helpers: set[str]) -> list[str]:
    rows = [("pairing", "lane", "draft", "weights", "target", "drafter", "profiles")]
    for p in pairings:
        kind = SERVED if p.served else p.kind
        lane = kind if p.enabled else f"[{kind}]"
        mark = "*" if p.deviations else ""
        drafter = "" if p.drafter in words() else p.drafter
        helper = " (helper)" if p.drafter in helpers else ""
        profiles = (f"{name}{'*' * bool(q.deviations)}" for name, q in p.profiles.items())
        size = weight_bytes(p)
        weights = gigabytes(size) if size is not None else "–"
        row = (p.name + mark, lane, str(p.draft_tokens), weights, p.target, drafter + helper)
        rows.append((*row, " ".join(profiles)))
    return table(rows)


def weight_bytes(pairing: Pairing) -> int | None:
    """Bytes of target and drafter together, None where their files are not here."""
    from llm_specdec import hub

    if pairing.served:
        return None
    external = pairing.drafter not in words()
    try:
        return memory.resident(
            hub.locate(pairing.target, offline=True),
            hub.locate(pairing.drafter, offline=True) if external else None,
            pairing.kind,
            pairing.drafter_bits,
            pairing.drafter_group_size,
        )
    except SpecdecError:
        return None  # doctor says what is wrong with them


def _listed_elsewhere(found: registry.Registry) -> set[str]:
    """Drafters that another plugin lists as models of their own."""
    drafters = {
        p.drafter
        for p in found.pairings.values()
        if p.drafter not in words() and not KINDS[p.kind].in_target
    }
    return drafters & other_models(found) if drafters else set()


def other_models(found: registry.Registry) -> set[str]:
    """Every id and alias that llm knows and that is not ours."""
    import llm

    ours = {*found.ids(), *registry.names_in_use(found.pairings)}
    return set(llm.get_model_aliases()) - ours


@click.command(name="set", short_help="Change settings of a pairing, for all its profiles")
@click.argument("name")
@assignments_argument
@unset_option
@deviation_option
@json_option
def set_command(
    name: str,
    assignments: tuple[str, ...],
    unset: tuple[str, ...],
    deviation: str | None,
    as_json: bool,
) -> None:
    """Change settings of a pairing, for all its profiles. Warns if a profile overrides one.

    \b
    Examples:
      llm specdec set qwen temperature=0.6 top_p=0.95
      llm specdec set qwen --unset top_p
    """
    if "/" in name:
        raise UsageError(f"{name} is a profile: llm specdec profile set {name} KEY=VALUE…")
    said = parse_settings(assignments, unset)
    check_thinking(registry.load().pairing(name), said)
    with registry.change(name) as pairing_table:
        values = pairing_table.setdefault("settings", {})
        write_settings(pairing_table, values, said, unset, deviation)
    pairing = registry.load().pairing(name)
    data = changed(pairing, None, said, unset)
    done(changed_text(data), data, as_json)
    warn_shadowed(pairing, said)
    warn_forbidden(pairing, None, said)
    warn_silent_card(pairing, said, deviation)


@click.command(name="remove", short_help="Remove a pairing")
@click.argument("name")
@yes_option
@json_option
def remove_command(name: str, yes: bool, as_json: bool) -> None:
    """Remove a pairing, its profiles and its prefix cache. Model files stay.

    Asks on a terminal, unless --yes is given.

    \b
    Example:
      llm specdec remove qwen
    """
    known = registry.load()
    if name not in {*known.pairings, *known.problems}:
        raise registry.unknown_pairing(name, known.pairings)
    profiles = list(known.pairings[name].profiles) if name in known.pairings else []
    if on_terminal() and not yes:
        confirm(f"Remove {_named(name, profiles)} and what the prefix cache holds of it?")
    with registry.edit() as document:
        del document["pairings"][name]
    entries, freed = _forget_prompts(name)
    left = mentions.of([name, *(f"{name}/{profile}" for profile in profiles)])
    cache = f", and its {counted(entries)} in the prefix cache, {gigabytes(freed)}"
    removed = f"removed {_named(name, profiles)}{cache if entries else ''}"
    done(
        "\n".join([f"{removed}; its model files stay where they are", *left]),
        {
            "removed": name,
            "profiles": profiles,
            "cache_entries": entries,
            "cache_bytes": freed,
            "left": left,
        },
        as_json,
    )


def _named(name: str, profiles: list[str]) -> str:
    if not profiles:
        return name
    return f"{name} with its profile{'s' * (len(profiles) > 1)} {', '.join(profiles)}"


def _forget_prompts(name: str) -> tuple[int, int]:
    """Remove what the prefix cache has on disk for a pairing that is gone: prompts are private,
    and no other pairing reads them. Entries and bytes."""
    try:
        gone = limits.folder(registry.load()).clear(name)
    except OSError as error:
        warn(f"its prompts may still be in the prefix cache, which cannot be changed: {error}")
        return 0, 0
    return len(gone), sum(file.size for file in gone)


@click.command(name="enable", short_help="Let a pairing draft again")
@click.argument("name")
@click.option("--override", metavar="WHY", help="Go against its gate; the reason is kept")
@json_option
def enable_command(name: str, override: str | None, as_json: bool) -> None:
    """Let a pairing draft again.

    A pairing that its gate disabled needs --override with a reason, which every receipt
    then carries. A pairing whose output was not the target's own stays off.

    \b
    Examples:
      llm specdec enable qwen
      llm specdec enable qwen --override 'my answers are long'
    """
    registry.load().pairing(name).check_local("start drafting from here")
    with registry.change(name) as pairing:
        was_enabled, reason = pairing.get("enabled", True), pairing.get("disabled_reason", "")
        if reason.startswith(BROKEN):
            raise CheckFailed(f"{name} stays off: {reason}")
        if (reason.startswith(VETOED) or reason == GATE_FIRST) and not override:
            raise CheckFailed(
                f"{name} stays off: {reason}: bench it again, or give --override 'why'"
            )
        pairing.pop("enabled", None)
        pairing.pop("disabled_reason", None)
        if override:
            write_settings(
                pairing, pairing.setdefault("settings", {}), {"draft": True}, (), override
            )
    again = "goes on drafting" if was_enabled else "drafts again"
    done(
        f"{name} {again}" + (f"; it was off: {reason}" if reason else ""),
        {"name": name, "enabled": True, "was_enabled": was_enabled, "was_off": reason or None},
        as_json,
    )


@click.command(name="disable", short_help="Run a pairing's target alone for now")
@click.argument("name")
@click.option("--reason", default="switched off by hand", help="Shown wherever the pairing is")
@json_option
def disable_command(name: str, reason: str, as_json: bool) -> None:
    """Run a pairing's target alone for now. Its model id and settings stay.

    \b
    Example:
      llm specdec disable qwen --reason 'waiting for a better drafter'
    """
    registry.load().pairing(name).check_local("stop drafting from here")
    with registry.change(name) as pairing:
        was_enabled = pairing.get("enabled", True)
        pairing["enabled"] = False
        pairing["disabled_reason"] = reason
    done(
        f"{name} no longer drafts; llm specdec enable {name} undoes it",
        {"name": name, "enabled": False, "was_enabled": was_enabled, "reason": reason},
        as_json,
    )
