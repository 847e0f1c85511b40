"""Which drafter a target gets: what was asked for where it fits, else what suits best."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from llm_specdec import hub
from llm_specdec.checkpoint import Anatomy, fingerprint
from llm_specdec.drafters import fit
from llm_specdec.drafters.published import drafters_for
from llm_specdec.drafters.recognise import read
from llm_specdec.drafters.table import KINDS, words
from llm_specdec.errors import CheckpointError, PairingError, SpecdecError, UnsupportedError
from llm_specdec.pairings.registry import GATE_FIRST, Pairing, Registry


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
    published: tuple[str, ...] = ()  # repositories of drafters, where `auto` found none here
    lost: str = ""  # why a drafter of its own could be taken from another build


def choose(
    found: Registry, target: str, drafter: str, *, force: bool = False, lent: bool = False
) -> Choice:
    """Check a target and a drafter, and settle what `auto` is. No weight is read.

    An explicit drafter is taken or refused, never replaced. lent: `drafter` names a folder or
    repository of which not the model drafts, but what it ships.
    Raises: HubError, CheckpointError, UnsupportedError, PairingError.
    """
    folder = hub.locate(target)
    anatomy = read(folder)
    if problems := fit.target_problems(anatomy):
        raise UnsupportedError(problems[0])
    name = as_stored(target)
    choice = Choice(
        name,
        drafter,
        drafter,
        "as asked",
        {"target": fingerprint(folder)},
        warnings=[*_refusals(folder), *anatomy.vocabulary.warnings],
    )
    if lent:
        return _external(choice, anatomy, drafter, force, lent)
    if drafter == "auto":
        return _automatic(choice, anatomy, found)
    if drafter in words():
        return _of_target(choice, anatomy)
    return _external(choice, anatomy, drafter, force)


def _refusals(target: Path) -> list[str]:
    """Why no prompt would run. Another version of mlx-lm may load what this one does not."""
    from llm_specdec.drafters.common import language_model  # mlx is slow to import

    try:
        language_model.check(target)
    except (CheckpointError, UnsupportedError) as error:
        return [f"every prompt will fail: {error}"]
    return []


def as_stored(path_or_repo: str) -> str:
    """A folder by its whole path, so that it is found from anywhere; a repository as it is."""
    path = Path(path_or_repo).expanduser()
    return str(path.resolve()) if hub.is_local(path_or_repo) else path_or_repo


def _automatic(choice: Choice, target: Anatomy, found: Registry) -> Choice:
    if own := fit.shipped(target):
        bits = KINDS[own.kind].stored_bits(target, None)
        return replace(choice, drafter=own.kind, kind=own.kind, why=own.reason, stored_bits=bits)
    lane = fit.recommend(target)
    why = lane.reason
    for known in _registered(found, choice.target):
        try:
            lent = KINDS[known.kind].in_target
            taken = _external(choice, target, known.drafter, force=False, lent=lent)
        except SpecdecError as error:  # whatever it is: auto never fails for a drafter
            why += f"; pairing {known.name}'s: {error}"
        else:
            return replace(
                taken,
                why=f"the drafter of pairing {known.name}",
                bits=known.drafter_bits,
                group_size=known.drafter_group_size,
            )
    return replace(
        choice,
        drafter=lane.kind,
        kind=lane.kind,
        why=why,
        published=drafters_for(choice.target),
        lost=fit.lost(target),
    )


def _registered(found: Registry, target: str) -> list[Pairing]:
    """Pairings of the same target with a drafter of their own that were not gated off."""
    return [
        pairing
        for pairing in found.pairings.values()
        if pairing.target == target and pairing.drafter not in words() and pairing.enabled
    ]


def _of_target(choice: Choice, target: Anatomy) -> Choice:
    """A kind that needs no files but the target's."""
    kind = KINDS[choice.kind]
    if lacking := kind.lacking(target):
        raise PairingError(f"{target.folder.name}: {lacking.split(',')[0]}: use --drafter auto")
    bits = kind.stored_bits(target, None)
    return replace(choice, why=kind.shipped(target) or choice.why, stored_bits=bits)


def _external(
    choice: Choice, target: Anatomy, drafter: str, force: bool, lent: bool = False
) -> Choice:
    objection = fit.objection(target)
    if objection and not force:
        raise PairingError(f"{objection}, or --force it")
    folder = hub.locate(drafter)
    anatomy = read(folder)
    kind = fit.kind_in(anatomy, lent)
    if differences := fit.mismatches(target, anatomy, lent):
        raise PairingError(
            f"{anatomy.folder.name} does not fit {target.folder.name}: {differences[0]}"
        )
    kind.check(folder)  # refuse now what would be refused at the first prompt
    return replace(
        choice,
        drafter=as_stored(drafter),
        kind=kind.name,
        why="it fits the target",
        fingerprints={**choice.fingerprints, "drafter": fingerprint(folder)},
        disabled_reason=GATE_FIRST if objection else "",
        stored_bits=kind.stored_bits(target, anatomy),
        warnings=list(dict.fromkeys([*choice.warnings, *fit.warnings(target, anatomy, lent)])),
    )
