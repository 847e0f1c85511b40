"""The registry, and the settings and verdicts in it."""

import shlex
from functools import partial

from llm_specdec import settings
from llm_specdec.adapter.options import stored_options
from llm_specdec.bench.last_verdict import standings
from llm_specdec.checks.finding import Finding, Findings, examine
from llm_specdec.checks.models import one_pairing
from llm_specdec.checks.servers import one_served
from llm_specdec.errors import RegistryError
from llm_specdec.pairings import registry, switched_off
from llm_specdec.pairings.registry import Pairing, Registry


def registry_file() -> Findings:
    """The file as a whole, and each pairing in it that cannot be used."""
    mend = f"$EDITOR {shlex.quote(str(registry.default_path()))}"
    try:
        found = registry.load()
    except RegistryError as error:
        why = "no pairing can be used; llm's other models can"
        yield Finding("broken", str(error), why, mend)
        return
    for problem in found.problems.values():
        yield Finding("broken", problem, "this pairing cannot be used, the others can", mend)
    if found.pairings:
        count = f"{len(found.pairings)} pairing{'s' * (len(found.pairings) != 1)}"
        yield Finding("ok", f"registry: {count} in {found.path.name}")
    elif not found.problems:
        yield Finding(
            "ok", "registry: no pairing yet", "", "llm specdec add NAME --target PATH_OR_REPO"
        )


def pairings() -> Findings:
    for pairing in known().pairings.values():
        check = one_served if pairing.served else one_pairing
        yield from examine(partial(check, pairing))


def shadowed() -> Findings:
    """Values that were set and do not count, because a higher layer says otherwise."""
    for model_id, (pairing, profile) in known().ids().items():
        yield from examine(partial(_shadows, model_id, pairing, profile))


def _shadows(model_id: str, pairing: Pairing, profile: str | None) -> Findings:
    resolution = settings.resolve(pairing, profile, stored_options(model_id), model_id=model_id)
    hidden = [
        name
        for name, top in resolution.settings.items()
        if top.layer == "profile" and any(v.layer == "pairing" for v in top.shadowed)
    ]
    if hidden:
        yield Finding("ok", f"{model_id}: the profile's {', '.join(hidden)} shadow the pairing's")
    for name, top in resolution.settings.items():
        lost = [v for v in top.shadowed if v.layer != settings.LAYERS[0]]
        if top.layer == "stored option" and lost and lost[0].value != top.value:
            yield Finding(
                "warning",
                f"{model_id}: stored option {name} = {top.value} shadows "
                f"{lost[0].value} of the {lost[0].layer}",
                "the recipe that the registry shows is not the one that runs",
                shlex.join(["llm", "models", "options", "clear", model_id, name]),
            )


def off() -> Findings:
    """Pairings that are switched off."""
    for pairing in known().pairings.values():
        if not pairing.enabled:
            yield Finding(
                "warning",
                f"{pairing.name} is switched off: {switched_off.why(pairing)}",
                "its target answers alone",
                switched_off.mend(pairing),
            )


def stale_benches() -> Findings:
    """Bench verdicts that were reached under another mlx, machine or checkpoint."""
    for name, standing in standings(known()).items():
        if standing.stale:
            yield Finding(
                "warning",
                f"{name}: {standing.line()}",
                "its verdict and rates may not hold any more",
                f"llm specdec bench {shlex.quote(name)} --gate {standing.gate_pct:g}",
            )


def known() -> Registry:
    """The registry, an empty one where it is broken, which `registry_file` reports."""
    try:
        return registry.load()
    except RegistryError:
        return Registry(registry.default_path())
