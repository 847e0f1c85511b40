"""What a run needs in memory. Generators yield what the user is told meanwhile."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_specdec import memory
from llm_specdec.backends.events import Notice
from llm_specdec.backends.local import costs, sessions
from llm_specdec.backends.planning import Plan
from llm_specdec.backends.resident import control
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.hardware import blas, device
from llm_specdec.engine.session import Session, Weights
from llm_specdec.prefix_cache import process
from llm_specdec.prefix_cache.lookup import PrefixCache

SLACK = 1.5  # seconds after an answer, in which measuring goes on with a further part
MEASURING = Notice("progress", "measuring what drafts cost on this machine")


@dataclass(frozen=True)
class Loaded:
    """What a run goes by, in memory."""

    session: Session
    costs: Costs | None = None
    prefix_cache: PrefixCache | None = None


def admit(plan: Plan, tokens: int) -> None:
    """Raises DoesNotFit where a run of `tokens` in all would not fit into memory."""
    weights = _weights(plan)
    memory.admit(
        weights.target,
        weights.drafter,
        tokens,
        kv_bits=plan.settings["kv_bits"],
        drafter_bits=plan.drafter_bits,
        drafter_group_size=plan.drafter_group_size,
        lane=plan.lane.kind,
        loaded=sessions.in_memory(weights),
        makes_way=process.hot().nbytes,
        in_use=device.memory_in_use() + _held_by_workers(),
    )


def _held_by_workers() -> int:
    """Bytes of other processes that no account of the device shows."""
    return control.held_elsewhere() if device.has_working_set() else 0


def load(plan: Plan) -> Generator[Notice, None, Session]:
    """The weights, loaded once a process, and a notice of a BLAS that the user named and that
    is not used. Raises CheckpointError, UnsupportedError, PairingError."""
    if why := blas.unused():
        yield Notice("warning", why)
    return sessions.load(_weights(plan))


def _weights(plan: Plan) -> Weights:
    return Weights(
        target=Path(plan.target),
        kind=plan.lane.kind,
        drafter=Path(plan.drafter) if plan.drafter else None,
        drafter_bits=plan.drafter_bits,
        drafter_group_size=plan.drafter_group_size,
        reads=plan.reads,
    )


def round_costs(
    plan: Plan,
    session: Session,
    anew: bool = False,
    waits: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> Generator[Notice, None, Costs | None]:
    """What rounds cost here, as far as the plan asks for it. anew: measured in any case; waits:
    measured now where the plan would do it after an answer. With a seed of the user's own what
    was measured first counts: its text must not depend on what was measured since."""
    if plan.costs == "none":
        return None
    kv_bits = plan.settings["kv_bits"]
    seeded = plan.costs == "measured"
    stored = None if anew else costs.stored(session, kv_bits, first=seeded)
    now = anew or seeded or (waits and plan.costs == "afterwards")
    if stored or not now:
        return stored
    yield MEASURING
    return costs.measured(session, kv_bits, anew=anew, cancelled=cancelled)


def refine_costs(
    plan: Plan,
    loaded: Loaded,
    passes: Mapping[int, float],
    context: int,
    cancelled: Callable[[], bool],
) -> Generator[Notice, None, None]:
    """After an answer whose passes, by width, took so long: see whether its costs were right,
    and measure some of those that are wanting, for the next one."""
    session, kv_bits = loaded.session, plan.settings["kv_bits"]
    if loaded.costs:
        costs.observe(session, loaded.costs, passes, context, kv_bits)
    if costs.wanting(session, kv_bits):
        yield MEASURING
        costs.measured(session, kv_bits, seconds=SLACK, cancelled=cancelled)


def prefix_cache(plan: Plan, session: Session, warn: Callable[[str], None]) -> PrefixCache | None:
    """What is kept for these weights; None where the setting says so. Raises CheckpointError,
    RegistryError."""
    if not plan.settings["prefix_cache"]:
        return None
    return process.cache_for(session, plan.pairing, plan.settings["kv_bits"], warn=warn)
