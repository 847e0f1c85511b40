"""Weights in memory. What a drafter is, its kind's face tells; the engine is handed the rest."""

from pathlib import Path

from llm_specdec.drafters.common import language_model
from llm_specdec.drafters.kind import Kind
from llm_specdec.drafters.table import HELPER, KINDS
from llm_specdec.engine.drafter import Drafter
from llm_specdec.engine.policy import Limits
from llm_specdec.engine.session import Session, Weights
from llm_specdec.engine.target import Target

# Weights stay in memory for the life of the process: llm makes new model objects all the time.
_loaded: dict[Weights, Session] = {}
_targets: dict[Path, Target] = {}


def load(weights: Weights) -> Session:
    """Load target and drafter, once a process.

    Raises: CheckpointError, UnsupportedError, PairingError.
    """
    if weights not in _loaded:
        target = _target(weights.target)
        _loaded[weights] = joined(weights, target, KINDS[weights.kind].load(weights, target))
    return _loaded[weights]


def joined(weights: Weights, target: Target, drafter: Drafter | None) -> Session:
    """A session of its own over a target and a drafter that are in memory."""
    kind = KINDS[weights.kind]
    helper = HELPER.load_helper() if kind.helped else None
    return Session(weights, target, drafter, _limits(kind, drafter), helper)


def _limits(kind: Kind, drafter: Drafter | None) -> Limits:
    most = drafter.max_draft if drafter else None
    sources = [*kind.sources, *([HELPER.helps] if kind.helped else [])]
    return Limits(
        longest={source.name: source.longest for source in sources}
        | {s.name: min(s.longest, most) for s in kind.sources if most is not None},
        priors={source.name: source.prior for source in sources if source.prior is not None},
        fallback=kind.fallback,
        timed=kind.has_weights,
    )


def in_memory(weights: Weights) -> tuple[bool, bool]:
    """Whether the target is in memory, and whether the drafter is."""
    return weights.target in _targets, weights in _loaded


def _target(folder: Path) -> Target:
    """Pairings of one target share its weights."""
    if folder not in _targets:
        _targets[folder] = language_model.load(folder)
    return _targets[folder]
