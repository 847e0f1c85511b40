"""`llm specdec profile set, show, remove`: sampling recipes, each a model id of its own."""

import click

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
    warn_silent_card,
    warn_stored,
    write_settings,
)
from llm_specdec.cli.output import done, json_option, print_json, show_value, warn
from llm_specdec.cli.pairings import other_models
from llm_specdec.cli.show import show_settings
from llm_specdec.errors import UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing, Profile


@click.group(name="profile", short_help="Make and change profiles, each a model id")
def profile_command() -> None:
    """Sampling recipes of a pairing. NAME/PROFILE is an llm model id.

    A profile overrides the pairing's settings. A profile called default is what the
    bare NAME uses.

    \b
    Examples:
      llm specdec profile set qwen/reason temperature=1.0 thinking=on
      llm specdec profile show qwen
    """


@profile_command.command(name="set", short_help="Make a profile, or change its settings")
@click.argument("model_id", metavar="NAME/PROFILE")
@assignments_argument
@unset_option
@deviation_option
@json_option
def set_command(
    model_id: str,
    assignments: tuple[str, ...],
    unset: tuple[str, ...],
    deviation: str | None,
    as_json: bool,
) -> None:
    """Make a profile, or change settings of one; the others stay.

    \b
    Examples:
      llm specdec profile set qwen/reason temperature=1.0 top_p=0.95 thinking=on
      llm specdec profile set qwen/reason repetition_penalty=1 \\
        --deviation 'the card means it for greedy decoding'
    """
    name, profile = split(model_id)
    said = parse_settings(assignments, unset)
    found = registry.load()
    name = found.pairing(name).name
    if f"{name}/{profile}" in other_models(found):
        raise UsageError(f"{name}/{profile} is already an llm model: choose another profile name")
    check_thinking(found.pairing(name), said)
    with registry.change(name) as pairing_table:
        profiles = pairing_table.setdefault("profiles", _tables())
        values = profiles.setdefault(profile, {})
        write_settings(values, values, said, unset, deviation)
    pairing = registry.load().pairing(name)
    data = changed(pairing, profile, said, unset)
    use = f"{name}/{profile} is a model id: llm -m {name}/{profile}"
    done(f"{changed_text(data)}\n{use}", data, as_json)
    warn_stored(f"{name}/{profile}", said)
    warn_forbidden(pairing, profile, said)
    warn_silent_card(pairing, said, deviation)


def _tables() -> dict[str, dict[str, object]]:
    import tomlkit

    return tomlkit.table(is_super_table=True)


def split(model_id: str) -> tuple[str, str]:
    name, slash, profile = model_id.partition("/")
    if not slash:
        raise UsageError(f"{model_id!r} is no profile: write NAME/PROFILE")
    if not registry.is_name(profile):
        raise UsageError(f"{profile!r} is no profile name: {registry.NAMES_ARE}")
    return name, profile


@profile_command.command(name="show", short_help="Show a profile, or all profiles of NAME")
@click.argument("model_id", metavar="NAME[/PROFILE]")
@json_option
def show_command(model_id: str, as_json: bool) -> None:
    """Show a profile's own settings, or those of all profiles of a pairing.

    \b
    Examples:
      llm specdec profile show qwen/reason
      llm specdec profile show qwen --json
    """
    pairing, profiles = _profiles(model_id)
    if as_json:
        listed = [
            {"id": f"{pairing.name}/{name}", "settings": p.settings, "deviations": p.deviations}
            for name, p in profiles.items()
        ]
        single = listed[0] if "/" in model_id else listed
        print_json(single)
        return
    for name, profile in profiles.items():
        show_settings(pairing, f"{pairing.name}/{name}", profile)
    if not profiles:
        warn(
            f"{pairing.name} has no profiles: llm specdec profile set {pairing.name}/NAME KEY=VALUE"
        )


def _profiles(model_id: str) -> tuple[Pairing, dict[str, Profile]]:
    found = registry.load()
    if "/" not in model_id:
        pairing = found.pairing(model_id)
        return pairing, pairing.profiles
    name, profile = split(model_id)
    pairing = found.pairing(name)
    if profile not in pairing.profiles:
        raise UsageError(
            f"pairing {pairing.name} has no profile {profile!r}: "
            f"it has {', '.join(pairing.profiles) or 'none'}"
        )
    return pairing, {profile: pairing.profiles[profile]}


@profile_command.command(name="remove", short_help="Remove a profile")
@click.argument("model_id", metavar="NAME/PROFILE")
@json_option
def remove_command(model_id: str, as_json: bool) -> None:
    """Remove a profile and its model id.

    \b
    Example:
      llm specdec profile remove qwen/reason
    """
    pairing, profiles = _profiles("/".join(split(model_id)))
    profile, own = next(iter(profiles.items()))
    with registry.change(pairing.name) as table:
        del table["profiles"][profile]
        if not table["profiles"]:
            del table["profiles"]
    removed = f"{pairing.name}/{profile}"
    values = ", ".join(f"{key} {show_value(value)}" for key, value in own.settings.items())
    left = mentions.of([removed])
    text = "\n".join([f"removed {removed}" + (f": {values}" if values else ""), *left])
    done(text, {"removed": removed, "settings": own.settings, "left": left}, as_json)
