"""Which drafter a target gets: what was asked for where it fits, else what suits best."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from llm_specdec import checkpoint, hub
from llm_specdec.checkpoint import Anatomy, fit
from llm_specdec.errors import PairingError, SpecdecError, UnsupportedError
from llm_specdec.pairings.registry import BUILT_IN, Pairing, Registry

GATE_FIRST = "a drafter beside the target's own head must pass its gate first"


@dataclass(frozen=True)
class Choice:
    """A target and a drafter that fit each other, as they will be registered."""

    target: str
    drafter: str
    kind: str
    why: str
    fingerprints: dict[str, str]
    disabled_reason: str = ""
    bits: int | None = None
    group_size: int | None = None
    stored_bits: int | None = None  # of a drafter that is stored quantised
    warnings: list[str] = field(default_factory=list)


def choose(found: Registry, target: str, drafter: str, *, force: bool = False) -> Choice:
    """Check a target and a drafter, and settle what `auto` is.

    An explicit drafter is taken or refused, never replaced.
    Raises: HubError, CheckpointError, UnsupportedError, PairingError.
    """
    folder = hub.locate(target)
    read = checkpoint.read(folder)
    if problems := fit.target_problems(read):
        raise UnsupportedError(problems[0])
    name = as_stored(target)
    choice = Choice(name, drafter, drafter, "as asked", {"target": checkpoint.fingerprint(folder)})
    if drafter == "auto":
        return _automatic(choice, read, found)
    if drafter == "mtp":
        return _own_head(choice, read)
    if drafter in BUILT_IN:
        return choice
    return _external(choice, read, drafter, force)


def as_stored(path_or_repo: str) -> str:
    """A folder by its whole path, so that it is found from anywhere; a repository as it is."""
    path = Path(path_or_repo).expanduser()
    return str(path.resolve()) if hub.is_local(path_or_repo) else path_or_repo


def _automatic(choice: Choice, target: Anatomy, found: Registry) -> Choice:
    lane = fit.recommend(target)
    if lane.kind == "mtp":
        return replace(choice, drafter="mtp", kind="mtp", why=lane.reason)
    why = lane.reason
    for known in _registered(found, choice.target):
        try:
            taken = _external(choice, target, known.drafter, force=False)
        except SpecdecError as error:  # whatever it is: auto never fails for a drafter
            why += f"; pairing {known.name}'s: {error}"
        else:
            return replace(
                taken,
                why=f"the drafter of pairing {known.name}",
                bits=known.drafter_bits,
                group_size=known.drafter_group_size,
            )
    return replace(choice, drafter="lookup", kind="lookup", why=why)


def _registered(found: Registry, target: str) -> list[Pairing]:
    """Pairings of the same target with a drafter of their own that were not gated off."""
    return [
        pairing
        for pairing in found.pairings.values()
        if pairing.target == target and pairing.drafter not in BUILT_IN and pairing.enabled
    ]


def _own_head(choice: Choice, target: Anatomy) -> Choice:
    lane = fit.recommend(target)
    if lane.kind != "mtp":
        raise PairingError(f"{target.folder.name}: {lane.reason.split(',')[0]}: use --drafter auto")
    return replace(choice, why=lane.reason)


def _computable(folder: Path) -> None:
    """Refuse now what the engine would refuse at the first prompt."""
    from llm_specdec.drafters.dflash import config

    config.read(folder)


def _external(choice: Choice, target: Anatomy, drafter: str, force: bool) -> Choice:
    objection = fit.head_objection(target)
    if objection and not force:
        raise PairingError(f"{objection}, or --force it")
    folder = hub.locate(drafter)
    read = checkpoint.read(folder)
    if advice := fit.placement(target, read):
        raise PairingError(advice)
    if differences := fit.mismatches(target, read):
        raise PairingError(
            f"{read.folder.name} does not fit {target.folder.name}: {differences[0]}"
        )
    if read.kind == "dflash":
        _computable(folder)
    return replace(
        choice,
        drafter=as_stored(drafter),
        kind=fit.lane_of(read.kind),
        why="it fits the target",
        fingerprints={**choice.fingerprints, "drafter": checkpoint.fingerprint(folder)},
        disabled_reason=GATE_FIRST if objection else "",
        stored_bits=read.quantisation.bits if read.quantisation else None,
        warnings=fit.warnings(target, read),
    )
