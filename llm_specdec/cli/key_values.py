"""KEY=VALUE words of a command line, into a table of the registry; what they do not reach."""

from collections.abc import Collection, Mapping
from typing import Any

import click

from llm_specdec import settings
from llm_specdec.adapter.options import stored_options
from llm_specdec.cli.output import show_value, warn
from llm_specdec.errors import SpecdecError, UsageError
from llm_specdec.pairings import anew
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


def check_thinking(pairing: Pairing, said: Mapping[str, Any]) -> None:
    """Raises UsageError for a thinking word that the target's chat template does not know.
    Where its files are not here, or hold no template, the first run says so; of a served model
    only where its tokenizer is named."""
    from llm_specdec import hub
    from llm_specdec.checkpoint.tokenizer import chat_template
    from llm_specdec.prompting.thinking import template_arguments

    place = pairing.served.tokenizer if pairing.served else pairing.target
    if "thinking" not in said or not place:
        return
    try:
        template = chat_template(hub.locate(place, offline=True))
    except SpecdecError:
        return
    if template:
        template_arguments(template, said["thinking"], {})


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


def changed(
    pairing: Pairing, profile: str | None, said: Collection[str], unset: Collection[str]
) -> dict[str, Any]:
    """What a command set for an id, what that shadows, and what holds where it unset."""
    found = settings.resolve(pairing, profile).settings
    model_id = f"{pairing.name}/{profile}" if profile else pairing.name
    return {
        "id": model_id,
        "set": {
            key: {"value": found[key].value, "shadows": found[key].shadowed[0]._asdict()}
            for key in said
        },
        "unset": {
            key: {"value": found[key].value, "layer": found[key].layer, "source": found[key].source}
            for key in unset
        },
    }


def changed_text(data: Mapping[str, Any]) -> str:
    """The same for a person, a line a setting."""
    lines = [
        f"{data['id']}: {key} {show_value(new['value'])}{_below(new['shadows'])}"
        for key, new in data["set"].items()
    ]
    lines += [
        f"{data['id']}: {key} unset; {show_value(now['value'])} holds ({_of(now)})"
        for key, now in data["unset"].items()
    ]
    return "\n".join(lines)


def _below(value: Mapping[str, Any]) -> str:
    if value["layer"] == settings.LAYERS[0]:
        return f" (default {show_value(value['value'])})"
    return f" (shadows {show_value(value['value'])} of {_of(value)})"


def _of(value: Mapping[str, Any]) -> str:
    if value["layer"] == settings.LAYERS[0]:
        return "the default"
    return f"the {value['layer']}, {value['source']}"


def warn_silent_card(pairing: Pairing, keys: Collection[str], deviation: str | None) -> None:
    """Say where --deviation is given for what no card speaks of."""
    if not deviation:
        return
    if not pairing.card:
        named = f"{anew.command(pairing, card='PATH_OR_REPO')} names one"
        how = named if pairing.served else f"llm specdec update {pairing.name} reads it"
        warn(f"no card is stored for {pairing.name}, the reason is kept all the same: {how}")
        return
    from llm_specdec.settings import card_layers

    for key in set(keys) - card_layers.speaks_of(pairing):
        warn(
            f"the card says nothing of {key}: the reason is kept, "
            "though nothing speaks against the value"
        )


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
