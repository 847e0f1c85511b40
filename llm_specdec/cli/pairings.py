"""`llm specdec list, show, set, remove, enable, disable`: what is in the registry."""

from collections.abc import Collection
from typing import Any

import click

from llm_specdec import cache_limits, memory, registry, settings
from llm_specdec.choose import GATE_FIRST
from llm_specdec.cli.output import counted, print_json, show_value, table, warn
from llm_specdec.errors import CheckFailed, LogError, SpecdecError, UsageError
from llm_specdec.options import stored_options
from llm_specdec.registry import BROKEN, VETOED, Pairing
from llm_specdec.sizes import gigabytes

json_option = click.option("--json", "as_json", is_flag=True, help="Everything as JSON")
deviation_option = click.option(
    "--deviation", metavar="WHY", help="Why these values go against the model's card on purpose"
)


def parse_settings(assignments: tuple[str, ...], unset: tuple[str, ...]) -> dict[str, Any]:
    """`key=value` words → typed values. Raises UsageError."""
    if not assignments and not unset:
        known = ", ".join(settings.SETTINGS)
        raise UsageError(f"nothing to set: write KEY=VALUE; known are {known}")
    found = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"{assignment!r} is no setting: write KEY=VALUE")
        found[key] = settings.parse(key, text)
    return found


def write_settings(
    owner: Any, values: Any, said: dict[str, Any], unset: tuple[str, ...], why: str | None
) -> None:
    """Change the table `values`; reasons go to `owner`'s deviations.

    A value that is set anew loses the reason that its old value had.
    """
    for key in unset:
        if key not in values:
            raise UsageError(f"{key} is not set here, so it cannot be unset")
        del values[key]
    values.update(said)
    reasons = dict(owner.get("deviations", {}))
    for key in (*unset, *said):
        reasons.pop(key, None)
    if why:
        reasons.update(dict.fromkeys(said, why))
    if reasons:
        owner["deviations"] = reasons
    else:
        owner.pop("deviations", None)


def warn_shadowed(pairing: Pairing, keys: Collection[str]) -> None:
    """Say which profiles and stored llm options hide the pairing's value of these keys."""
    warn_stored(pairing.name, keys)
    for name, profile in pairing.profiles.items():
        model_id = f"{pairing.name}/{name}"
        for key in profile.settings.keys() & keys:
            warn(
                f"{key} is shadowed in {model_id}, whose profile says "
                f"{show_value(profile.settings[key])}: "
                f"llm specdec profile set {model_id} {key}=…"
            )
        warn_stored(model_id, keys)


def warn_stored(model_id: str, keys: Collection[str]) -> None:
    for key, value in stored_options(model_id).items():
        if key in keys:
            warn(
                f"{key} is shadowed in {model_id} by llm's stored option {value}: "
                f"llm models options clear {model_id} {key}"
            )


def warn_forbidden(pairing: Pairing, profile: str | None, keys: Collection[str]) -> None:
    for against in settings.resolve(pairing, profile).against:
        if against.setting in keys:
            warn(against.message)


@click.command(name="list", short_help="The pairings, one a line")
@json_option
def list_command(as_json: bool) -> None:
    """The pairings, one a line. Paths lose their beginning where the line is full.

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
        click.echo("\n".join(_list_table(pairings, _listed_elsewhere(found))))
    else:
        click.echo("no pairings yet: llm specdec add NAME --target PATH_OR_REPO", err=True)


def _benched(found: registry.Registry) -> dict[str, Any]:
    """pairing → its standing; none, with a warning, where the bench history cannot be read."""
    from llm_specdec.bench.standing import standings

    try:
        return standings(found)
    except LogError as error:
        warn(str(error))
        return {}


def _list_table(pairings: list[Pairing], helpers: set[str]) -> list[str]:
    rows = [("pairing", "lane", "draft", "weights", "target", "drafter", "profiles")]
    for p in pairings:
        lane = p.kind if p.enabled else f"[{p.kind}]"
        mark = "*" if p.deviations else ""
        drafter = "" if p.drafter in registry.BUILT_IN else p.drafter
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

    external = pairing.drafter not in registry.BUILT_IN
    try:
        return memory.resident(
            hub.locate(pairing.target, offline=True),
            hub.locate(pairing.drafter, offline=True) if external else None,
            pairing.drafter_bits,
            head=pairing.kind == "mtp",
        )
    except SpecdecError:
        return None  # doctor says what is wrong with them


def _listed_elsewhere(found: registry.Registry) -> set[str]:
    """Drafters that another plugin lists as models of their own."""
    drafters = {p.drafter for p in found.pairings.values()} - set(registry.BUILT_IN)
    return drafters & other_models(found) if drafters else set()


def other_models(found: registry.Registry) -> set[str]:
    """Every id and alias that llm knows and that is not ours."""
    import llm

    ours = {*found.ids(), *registry.names_in_use(found.pairings)}
    return set(llm.get_model_aliases()) - ours


@click.command(name="show", short_help="One pairing with all that is stored for it")
@click.argument("name")
@click.option("--costs", "with_costs", is_flag=True, help="What its rounds cost on this machine")
@click.option("--recalibrate", is_flag=True, help="Measure those costs anew")
@json_option
def show_command(name: str, with_costs: bool, recalibrate: bool, as_json: bool) -> None:
    """One pairing with all that is stored for it.

    What a setting finally is, and why, says llm specdec explain.

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
    for key, value in data.items():
        if key not in ("settings", "deviations", "profiles", "card", "head", "fingerprints"):
            click.echo(f"{key:<20}{show_value(value)}")
    for role, print_ in pairing.fingerprints.items():
        click.echo(f"{role + ' fingerprint':<20}{print_[:16]}")
    if pairing.head:
        click.echo(f"{'head reads':<20}{show_head(pairing.head)}")
    show_settings("settings", pairing.settings, pairing.deviations)
    for profile, own in pairing.profiles.items():
        show_settings(f"profile {profile}", own.settings, own.deviations)
    if pairing.card:
        _show_card(pairing)


def _show_card(pairing: Pairing) -> None:
    from llm_specdec import card_layers
    from llm_specdec.cli import taking

    kept = card_layers.read(pairing)
    click.echo("\n".join(taking.report(pairing.name, kept.card, kept.taken)))


def show_head(head: dict[str, Any]) -> str:
    """What calibration chose, and the acceptance that each choice gave."""
    names = {"final_norm": "after the final norm", "last_layer": "before the final norm"}
    rates = [f"{names[key]} {rate:.0%}" for key, rate in head.get("acceptance", {}).items()]
    return f"states {names[head['reads']]}" + (f" (accepted: {', '.join(rates)})" if rates else "")


def _show_costs(pairing: Pairing, anew: bool, as_json: bool) -> None:
    """Milliseconds of a verify pass and of a draft, at a short and a long context."""
    from llm_specdec import setup

    ready = setup.Setup(pairing, None, settings.resolve(pairing))
    weights = ready.weights()
    ready.admit(weights, 0)
    found = ready.costs(
        setup.load(weights), tell=lambda text: click.echo(text, err=True), anew=anew
    )
    if found is None:
        raise UsageError(f"{pairing.name} has no costs to show: it does not adapt its draft length")
    if as_json:
        print_json(found.as_json())
        return
    near, far = found.contexts
    curves = {"verify": found.verify, **{f"draft ({kind})": c for kind, c in found.draft.items()}}
    rows = [("milliseconds", f"at {near} tokens", f"at {far} tokens")]
    rows += [
        (f"{title} {x}", _shown_ms(pair[0].get(x)), _shown_ms(pair[1].get(x)))
        for title, pair in curves.items()
        for x in sorted(pair[0])
    ]
    click.echo("\n".join(table(rows)))


def _shown_ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:.1f}"


def show_settings(title: str, values: dict[str, Any], reasons: dict[str, str]) -> None:
    click.echo(f"{title}{':' if values else ': none'}")
    for key, value in values.items():
        why = f"  (against the card: {reasons[key]})" if key in reasons else ""
        click.echo(f"  {key:<18}{show_value(value)}{why}")


@click.command(name="set", short_help="Settings of a pairing, for all its profiles")
@click.argument("name")
@click.argument("assignments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--unset", multiple=True, metavar="KEY", help="Take a setting away; can be repeated")
@deviation_option
def set_command(
    name: str, assignments: tuple[str, ...], unset: tuple[str, ...], deviation: str | None
) -> None:
    """Settings of a pairing, for all its profiles. Warns where a profile shadows one.

    \b
    Examples:
      llm specdec set qwen temperature=0.6 top_p=0.95
      llm specdec set qwen --unset top_p
    """
    if "/" in name:
        raise UsageError(f"{name} is a profile: llm specdec profile set {name} KEY=VALUE…")
    said = parse_settings(assignments, unset)
    with registry.change(name) as pairing_table:
        values = pairing_table.setdefault("settings", {})
        write_settings(pairing_table, values, said, unset, deviation)
    pairing = registry.load().pairing(name)
    warn_shadowed(pairing, said)
    warn_forbidden(pairing, None, said)


@click.command(name="remove", short_help="Take a pairing out of the registry")
@click.argument("name")
def remove_command(name: str) -> None:
    """Take a pairing, its profiles and its prefix cache away. Model files stay.

    \b
    Example:
      llm specdec remove qwen
    """
    with registry.edit() as document:
        tables = document.get("pairings", {})
        if name not in tables:
            raise registry.unknown_pairing(name, tables)
        del tables[name]
    forgotten = _forget_prompts(name)
    click.echo(f"removed {name}{forgotten}; its model files stay where they are", err=True)


def _forget_prompts(name: str) -> str:
    """Remove what the prefix cache has on disk for a pairing that is gone, in words: prompts are
    private, and no other pairing reads them."""
    try:
        gone = cache_limits.store(registry.load()).clear(name)
    except OSError as error:
        warn(f"its prompts may still be in the prefix cache, which cannot be changed: {error}")
        return ""
    freed = gigabytes(sum(held.size for held in gone))
    return f" and its {counted(len(gone))} in the prefix cache, {freed}" if gone else ""


@click.command(name="enable", short_help="Let a pairing draft again")
@click.argument("name")
@click.option("--override", metavar="WHY", help="Go against its gate; the reason is kept")
def enable_command(name: str, override: str | None) -> None:
    """Let a pairing draft again.

    One that its gate disabled needs --override with a reason, which every receipt then
    carries as a deviation. One whose output was not the target's own stays off.

    \b
    Examples:
      llm specdec enable qwen
      llm specdec enable qwen --override 'my answers are long'
    """
    with registry.change(name) as pairing:
        reason = pairing.get("disabled_reason", "")
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
    click.echo(f"{name} drafts again" + (f"; it was off: {reason}" if reason else ""), err=True)


@click.command(name="disable", short_help="Run a pairing's target alone for now")
@click.argument("name")
@click.option("--reason", default="switched off by hand", help="Shown wherever the lane is")
def disable_command(name: str, reason: str) -> None:
    """Run a pairing's target alone for now. Its model id and settings stay.

    \b
    Example:
      llm specdec disable qwen --reason 'waiting for a better drafter'
    """
    with registry.change(name) as pairing:
        pairing["enabled"] = False
        pairing["disabled_reason"] = reason
    click.echo(f"{name} no longer drafts; llm specdec enable {name} undoes it", err=True)
