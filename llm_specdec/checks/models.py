"""A pairing's models: their files, whether they fit each other, and memory."""

import shlex
from pathlib import Path

from llm_specdec import hub, memory, settings
from llm_specdec.checkpoint import Anatomy, fingerprint
from llm_specdec.checks.finding import Finding, Findings
from llm_specdec.console.sizes import gigabytes
from llm_specdec.drafters import fit
from llm_specdec.drafters.recognise import read
from llm_specdec.drafters.table import KINDS, words
from llm_specdec.errors import SpecdecError
from llm_specdec.pairings import anew
from llm_specdec.pairings.registry import Pairing


def one_pairing(pairing: Pairing) -> Findings:
    """Files there, unchanged and still fitting each other; memory enough."""
    folders: dict[str, Path] = {}
    for role, place in _roles(pairing).items():
        try:
            folders[role] = hub.locate(place, offline=True)
        except SpecdecError as error:
            moved = place.startswith(("/", "~", "."))
            mend = _move(pairing, role) if moved else anew.command(pairing)
            yield Finding("broken", f"{pairing.name}: {role}: {error}", "it cannot run", mend)
    if len(folders) < len(_roles(pairing)):
        return
    changed = [role for role, folder in folders.items() if _changed(pairing, role, folder)]
    for role in changed:
        yield Finding(
            "warning",
            f"{pairing.name}: the {role}'s files changed since it was added",
            "its bench results and card values are those of other weights",
            anew.command(pairing),
        )
    target = read(folders["target"])
    drafter = read(folders["drafter"]) if "drafter" in folders else None
    problems = [*_misfits(pairing, target, drafter), *_context(pairing, target)]
    yield from problems
    yield from _space(pairing, target, drafter)
    if not changed and not problems:
        yield Finding("ok", f"{pairing.name}: files are whole and fit each other")


def _roles(pairing: Pairing) -> dict[str, str]:
    drafter = {} if pairing.drafter in words() else {"drafter": pairing.drafter}
    return {"target": pairing.target, **drafter}


def _changed(pairing: Pairing, role: str, folder: Path) -> bool:
    known = pairing.fingerprints.get(role)
    return known is not None and known != fingerprint(folder)


def _move(pairing: Pairing, role: str) -> str:
    return shlex.join(["llm", "specdec", "move", pairing.name, f"--{role}", "FOLDER"])


def _remove(pairing: Pairing) -> str:
    return shlex.join(["llm", "specdec", "remove", pairing.name])


def _misfits(pairing: Pairing, target: Anatomy, drafter: Anatomy | None) -> Findings:
    problems = fit.target_problems(target)
    if drafter is None:
        problems = [*problems, *KINDS[pairing.kind].mismatches(target, None)]
    elif not problems:
        problems = fit.mismatches(target, drafter, lent=KINDS[pairing.kind].in_target)
    for problem in problems:
        why = "target and drafter do not fit (any more): it cannot run"
        yield Finding(
            "broken", f"{pairing.name}: {problem}", why, anew.with_drafter(pairing, "auto")
        )


def _context(pairing: Pairing, target: Anatomy) -> Findings:
    context, positions = settings.resolve(pairing).values["context"], target.positions
    if context and positions.hard and context > positions.context:
        yield Finding(
            "broken",
            f"{pairing.name}: context {context} is more than the {positions.context} positions "
            "that the model has",
            "every run is refused",
            f"llm specdec set {shlex.quote(pairing.name)} context={positions.context}",
        )


def _space(pairing: Pairing, target: Anatomy, drafter: Anatomy | None) -> Findings:
    context = settings.resolve(pairing).values["context"]
    full = context or target.positions.native or memory.STEP

    def fits(tokens: int) -> bool:
        need = memory.estimate(
            target,
            drafter,
            tokens,
            lane=pairing.kind,
            drafter_bits=pairing.drafter_bits,
            drafter_group_size=pairing.drafter_group_size,
        )
        return need.total <= limit.nbytes

    limit = memory.budget()
    most = memory.largest_context(fits, full)
    size = gigabytes(limit.nbytes)
    if most == 0:
        yield Finding(
            "broken",
            f"{pairing.name}: not even its weights fit ({limit.what}: {size})",
            "every run is refused",
            _remove(pairing),
        )
    elif most < full:
        yield Finding(
            "warning",
            f"{pairing.name}: {most:,} of {full:,} tokens of context fit ({limit.what}: {size})",
            "a longer run is refused",
            f"llm specdec set {shlex.quote(pairing.name)} context={most}",
        )
