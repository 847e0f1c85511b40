"""KEY=VALUE words of a command line, into a table of the registry; what they do not reach."""

from collections.abc import Collection
from typing import Any

import click

from llm_specdec import settings
from llm_specdec.adapter.options import stored_options
from llm_specdec.cli.output import show_value, warn
from llm_specdec.errors import UsageError
from llm_specdec.pairings.registry import Pairing

assignments_argument = click.argument("assignments", metavar="[KEY=VALUE]...", nargs=-1)
unset_option = click.option(
    "--unset", multiple=True, metavar="KEY", help="Remove a setting; may be repeated"
)
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
