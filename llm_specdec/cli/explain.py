"""`llm specdec explain`: every setting of a model id, and where it comes from."""

from dataclasses import asdict
from typing import Any

import click

from llm_specdec import settings
from llm_specdec.adapter.options import stored_options
from llm_specdec.backends import lane_of
from llm_specdec.cli.output import json_option, print_json, show_value, table, warn
from llm_specdec.console.text import echo
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing
from llm_specdec.receipts import Lane
from llm_specdec.settings import Resolution


@click.command(
    name="explain", short_help="Show every setting of a model id and where it comes from"
)
@click.argument("model_id", metavar="ID")
@click.option(
    "-o",
    "--option",
    "options",
    type=(str, str),
    multiple=True,
    metavar="KEY VALUE",
    help="As on llm's own command line; may be repeated",
)
@json_option
def explain_command(model_id: str, options: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Show every setting of a model id and where it comes from.

    For each setting: the value in effect, the layer that it comes from and its place in
    a file; below it the values that it shadows, highest first. Then the lane that a run
    would take, that is, its drafter.

    \b
    Examples:
      llm specdec explain qwen/reason
      llm specdec explain qwen -o temperature 1 --json
    """
    pairing, profile = registry.load().find(model_id)
    own_id = pairing.name if "/" not in model_id else f"{pairing.name}/{profile}"
    resolution = settings.resolve(pairing, profile, stored_options(own_id), dict(options), own_id)
    lane = lane_of(pairing, resolution)
    undecided = _undecided(pairing, resolution)
    if as_json:
        data = {
            "id": own_id,
            "settings": {name: _as_dict(s) for name, s in resolution.settings.items()},
            "lane": asdict(lane),
            **({"tokenizer": pairing.served.tokenizer} if pairing.served else {}),
            "deviations": resolution.deviations,
            "warnings": resolution.warnings,
            "undecided": undecided,
        }
        print_json(data)
        return
    echo("\n".join([*_table(resolution), "", *_below(resolution, lane)]))
    if pairing.served and pairing.served.tokenizer:
        echo(f"tokenizer: that of {pairing.served.tokenizer}")
    for warning in [*resolution.warnings, *undecided]:
        warn(warning)


def _undecided(pairing: Pairing, resolution: Resolution) -> list[str]:
    """Where the card contradicts itself and nobody has decided, so that the default holds."""
    if not pairing.card:
        return []
    from llm_specdec.cli import card_values
    from llm_specdec.settings import card_layers

    return [
        f"the card is of two minds about {card_values.disputed(entry)}: "
        f"llm specdec set {pairing.name} {entry.setting}=…"
        for entry in card_layers.read(pairing).card.disagreements
        if entry.setting in resolution.settings
        and resolution.settings[entry.setting].layer == "built-in"
    ]


def _as_dict(resolved: settings.Resolved) -> dict[str, Any]:
    shadowed = [value._asdict() for value in resolved.shadowed]
    return {**asdict(resolved), "shadowed": shadowed}


def _table(resolution: Resolution) -> list[str]:
    rows = [("setting", "value", "layer", "source")]
    for name, top in resolution.settings.items():
        rows.append((name, show_value(top.value), top.layer, top.source))
        rows += [
            ("  shadows", show_value(value.value), value.layer, value.source)
            for value in top.shadowed
        ]
    return table(rows)


def _below(resolution: Resolution, lane: Lane) -> list[str]:
    reasons = [
        f"deviation: {d['setting']} {show_value(d['value'])} ({d['layer']}): {d['reason']}"
        for d in resolution.deviations
    ]
    return [*reasons, f"lane: {lane.kind}{f', {lane.state}' if lane.state else ''}: {lane.reason}"]
