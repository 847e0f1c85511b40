"""Does this drafter suit this target, will it pay, and which lane is the best one."""

from dataclasses import dataclass

from llm_specdec.checkpoint import TARGET, Anatomy
from llm_specdec.drafters.kind import Kind
from llm_specdec.drafters.table import HELPER, KINDS, NONE, of_files

_DEAR = 0.5  # a draft pass that reads more than this share of a target pass rarely pays


@dataclass(frozen=True)
class Recommendation:
    kind: str  # a name in the table
    reason: str


@dataclass(frozen=True)
class DraftCost:
    """What one draft pass reads, and how many draft tokens it gives.

    share: its bytes ÷ those of one target pass.
    """

    bytes_per_pass: int
    tokens_per_pass: int
    share: float


def target_problems(target: Anatomy) -> list[str]:
    """Why this cannot run as a target; [] when it can."""
    if target.kind != TARGET:
        words = of_files(target.kind).files_words
        return [f"{target.folder.name} is {words}: a helper, never a target"]
    return target.problems()


def kind_for(target: Anatomy, drafter: Anatomy | None) -> Kind:
    """The kind that would draft: the drafter's, else that of which the target's own files hold
    something."""
    if drafter is not None:
        return of_files(drafter.kind)
    return next((kind for kind in KINDS.values() if kind.name in target.parts), NONE)


def kind_in(drafter: Anatomy, lent: bool) -> Kind:
    """The kind of drafter that a folder gives. lent: not the model there, but what it ships."""
    return kind_for(drafter, None) if lent else of_files(drafter.kind)


def mismatches(target: Anatomy, drafter: Anatomy, lent: bool = False) -> list[str]:
    """What keeps the drafter from working with the target, with both figures; [] if nothing.

    lent: as for `kind_in`. Raises CheckpointError when a tokenizer cannot be read.
    """
    kind = kind_in(drafter, lent)
    if kind is NONE:
        return [f"{drafter.folder.name} ships no drafter that could be lent"]
    return kind.mismatches(target, drafter)


def draft_cost(
    target: Anatomy, drafter: Anatomy | None = None, lent: bool = False
) -> DraftCost | None:
    """The cost of one draft pass; without a drafter, of the target's own (or None)."""
    kind = kind_in(drafter, lent) if drafter else kind_for(target, None)
    found = kind.draft_pass(target, drafter)
    if found is None:
        return None
    return DraftCost(found.nbytes, found.tokens, found.nbytes / max(target.pass_bytes, 1))


def objection(target: Anatomy) -> str | None:
    """Why an external drafter should not be bolted onto this target, if it ships its own."""
    return next((said for kind in KINDS.values() if (said := kind.objection(target))), None)


def lost(target: Anatomy) -> str:
    """Why a drafter that the target should ship could be taken from another build of it; ""
    where it could not, or need not."""
    return next((said for kind in KINDS.values() if (said := kind.lost(target))), "")


def warnings(target: Anatomy, drafter: Anatomy | None, lent: bool = False) -> list[str]:
    """What is allowed but will not work with every prompt, or probably not pay."""
    found = [*target.vocabulary.warnings]
    if drafter is not None and (said := objection(target)):
        found.append(said)
    cost = draft_cost(target, drafter, lent)
    if cost and cost.share / cost.tokens_per_pass > _DEAR:
        found.append(
            f"a draft pass reads {cost.share:.0%} of what a target pass reads: "
            "drafting can hardly pay; take a smaller or quantised drafter"
        )
    return found


def shipped(target: Anatomy) -> Recommendation | None:
    """The lane that the target's own files do for, None where they do for none."""
    said = ((kind.name, kind.shipped(target)) for kind in KINDS.values())
    return next((Recommendation(name, why) for name, why in said if why), None)


def recommend(
    target: Anatomy, drafter: Anatomy | None = None, lent: bool = False
) -> Recommendation:
    """The lane to run: the target's own drafter, else a drafter that fits, else the helper."""
    if lane := shipped(target):
        return lane
    why = ", ".join(lacks for kind in KINDS.values() if (lacks := kind.lacking(target)))
    if drafter is None:
        return Recommendation(HELPER.name, f"{why}, no drafter given")
    if mismatches(target, drafter, lent):
        return Recommendation(HELPER.name, f"{why}, and the drafter does not fit")
    return Recommendation(kind_in(drafter, lent).name, f"{why}, and the drafter fits")
