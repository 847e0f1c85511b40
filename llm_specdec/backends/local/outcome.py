"""A run that ended, however it ended, in plain numbers."""

from collections.abc import Mapping
from typing import Any

from llm_specdec import __version__
from llm_specdec.backends.planning import Plan, effective
from llm_specdec.constraints.grammar import GrammarConstraint
from llm_specdec.engine.hardware.device import peak_memory
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import SYNC_EVERY, PhaseTimer
from llm_specdec.receipts import Lane, Result


def result(
    plan: Plan,
    run: Run,
    timer: PhaseTimer,
    reasoning_tokens: int,
    constraint: Mapping[str, Any] | None,
) -> Result:
    stats, asked, seconds = run.stats, run.request, timer.phases()
    return Result(
        version=__version__,
        pairing=plan.pairing,
        profile=plan.profile,
        lane=_lane(plan, run),
        prompt_tokens=len(asked.prompt),
        cached_tokens=run.cached,
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
        sampling=effective(plan.settings) | {"seed": plan.seed, "max_tokens": asked.max_tokens},
        deviations=plan.deviations,
        peak_memory_bytes=peak_memory(),
        constraint=constraint,
    )


def kept_to(schema: GrammarConstraint, stopped_by: str | None) -> dict[str, Any]:
    """What the receipt says of the schema."""
    complete = schema.complete and stopped_by is None
    return {"kind": "schema", "complete": complete, "ended_early": complete and schema.closed}


def shortened(schema: GrammarConstraint, run: Run, stopped_by: str | None) -> str | None:
    """What to say where the JSON is shorter than it would have been."""
    more = f"max_tokens {run.request.max_tokens} was reached, raise it"
    if stopped_by is not None:
        return f"the JSON is cut and not valid: the stop string {stopped_by!r} came"
    if schema.complete:
        return f"the JSON is valid but was ended early: {more}" if schema.closed else None
    if run.stats.finish_reason == "interrupted":
        return None
    why = more if schema.left <= 0 else "nothing that the schema allows could follow"
    return f"the JSON is cut and not valid: {why}"


def _lane(plan: Plan, run: Run) -> Lane:
    """The lane as it ended: the policy may have parked the drafter."""
    kind, state, reason = plan.lane.kind, plan.lane.state, plan.lane.reason
    if run.drafter is None:
        return plan.lane
    if run.policy.state == "parked":
        return Lane(kind, "parked", "drafting would be slower at its acceptance")
    if plan.settings["draft_tokens"] == "auto" and not run.policy.adapts:
        unmeasured = f"costs not measured, {run.policy.longest} instead"
        return Lane(kind, state, f"{reason} ({unmeasured})")
    return plan.lane


def _dense(counter: Mapping[int, int]) -> list[int]:
    return [counter.get(i, 0) for i in range(max(counter) + 1)] if counter else []
