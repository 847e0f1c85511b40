"""A run that ended, however it ended, in plain numbers."""

from collections.abc import Mapping
from typing import Any

from llm_specdec import __version__
from llm_specdec.backends.local.prompts import Prepared
from llm_specdec.backends.planning import Plan, effective
from llm_specdec.constraints.grammar import GrammarConstraint
from llm_specdec.engine.outcome import Outcome
from llm_specdec.engine.phases import SYNC_EVERY, PhaseTimer
from llm_specdec.receipts import Lane, Result


def result(
    plan: Plan,
    prepared: Prepared,
    ended: Outcome,
    timer: PhaseTimer,
    reasoning_tokens: int,
    constraint: Mapping[str, Any] | None,
) -> Result:
    stats, seconds = ended.stats, timer.phases()
    return Result(
        version=__version__,
        pairing=plan.pairing,
        profile=plan.profile,
        lane=_lane(plan, ended),
        prompt_tokens=len(prepared.tokens),
        cached_tokens=ended.cached,
        reasoning_tokens=reasoning_tokens,
        completion_ids=stats.completion,
        ttft_ms=1000 * (timer.wall if timer.ttft is None else timer.ttft),
        wall_ms=1000 * timer.wall,
        finish_reason=stats.finish_reason,
        phases_ms={"load": 1000 * timer.load, **{name: 1000 * s for name, s in seconds.items()}},
        rounds=stats.rounds,
        drafted=stats.drafted,
        accepted=stats.accepted,
        by_length=_dense(stats.lengths),
        by_position=_dense(stats.positions),
        by_source=stats.by_source,
        synced_rounds=timer.synced_rounds,
        sync_every=SYNC_EVERY,
        sampling=effective(plan.settings) | {"seed": plan.seed, "max_tokens": prepared.max_tokens},
        deviations=plan.deviations,
        peak_memory_bytes=ended.peak_memory,
        constraint=constraint,
        passes=stats.passes,
    )


def kept_to(schema: GrammarConstraint, stopped_by: str | None) -> dict[str, Any]:
    """What the receipt says of the schema."""
    complete = schema.complete and stopped_by is None
    return {"kind": "schema", "complete": complete, "ended_early": complete and schema.closed}


def shortened(
    schema: GrammarConstraint, ended: Outcome, max_tokens: int, stopped_by: str | None
) -> str | None:
    """What to say where the JSON is shorter than it would have been."""
    more = f"max_tokens {max_tokens} was reached, raise it"
    if stopped_by is not None:
        return f"the JSON is cut and not valid: the stop string {stopped_by!r} came"
    if schema.complete:
        return f"the JSON is valid but was ended early: {more}" if schema.closed else None
    if ended.stats.finish_reason == "interrupted":
        return None
    why = more if schema.left <= 0 else "nothing that the schema allows could follow"
    return f"the JSON is cut and not valid: {why}"


def _lane(plan: Plan, ended: Outcome) -> Lane:
    """The lane as it ended: the policy may have parked the drafter."""
    lane = plan.lane
    if ended.lane == "parked":
        return Lane(lane.kind, "parked", ended.reason)
    if ended.lane == "drafting" and ended.reason:
        return Lane(lane.kind, lane.state, f"{lane.reason} ({ended.reason})")
    return lane


def _dense(counter: Mapping[int, int]) -> list[int]:
    return [counter.get(i, 0) for i in range(max(counter) + 1)] if counter else []
