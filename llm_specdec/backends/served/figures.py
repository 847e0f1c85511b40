"""What an engine tells of a run, each in its own record, as one neutral form.

`timings` (llama.cpp, mlx-vlm), `metrics` (vLLM), `sglext` (SGLang), `stats` (LM Studio) stand
beside the usage of an answer; oMLX adds its times to `usage` itself. What none of them tells is
None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RECORDS = ("timings", "metrics", "sglext", "stats")
USAGE = "usage"


@dataclass(frozen=True)
class Figures:
    """method: the drafter, in the engine's words. by_position[i]: how often the draft token at
    position i was accepted. reported_ms: times by the engine's own clock."""

    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    by_position: Sequence[int] = ()
    method: str | None = None
    reported_ms: Mapping[str, float] = field(default_factory=dict)


def of(engine: str, records: Mapping[str, Any]) -> Figures:
    """records: those of RECORDS that the answer held, and what its USAGE has beside OpenAI's own
    fields."""
    read, name = _READERS.get(engine, (None, ""))
    record = records.get(name)
    if not (read and isinstance(record, Mapping)):
        return Figures()
    try:
        return read(record)
    except (AttributeError, TypeError):  # another form than its engine's
        return Figures()


def counts(found: Figures) -> dict[str, int | None]:
    told = {"rounds": found.rounds, "drafted": found.drafted, "accepted": found.accepted}
    return {name: count(value) for name, value in told.items()}


def count(value: object) -> int | None:
    """What a server gives as a count, if it is one."""
    return value if isinstance(value, int) and value >= 0 else None


def state(found: Figures) -> str | None:
    """Of the lane: whether the server drafted, None where it does not tell."""
    return None if found.drafted is None else "drafting" if found.drafted else "off"


def _llama(timings: Mapping[str, Any]) -> Figures:
    """`draft_n` is left out where nothing was drafted."""
    return Figures(
        drafted=timings.get("draft_n", 0),
        accepted=timings.get("draft_n_accepted", 0),
        reported_ms=_times(timings, prefill="prompt_ms", decode="predicted_ms"),
    )


def _mlx_vlm(timings: Mapping[str, Any]) -> Figures:
    return Figures(
        rounds=timings.get("draft_rounds"),
        drafted=timings.get("draft_n"),
        accepted=timings.get("draft_n_accepted"),
        method=timings.get("draft_kind"),
        reported_ms=_times(timings, prefill="prompt_ms", decode="predicted_ms"),
    )


def _vllm(metrics: Mapping[str, Any]) -> Figures:
    drafting = metrics.get("speculative_decoding") or {}
    return Figures(
        rounds=drafting.get("num_spec_steps"),
        drafted=drafting.get("num_draft_tokens"),
        accepted=drafting.get("num_accepted_draft_tokens"),
        by_position=_positions(drafting.get("acceptance_histogram")),
        reported_ms=_times(
            metrics,
            queue="queue_time_ms",
            ttft="time_to_first_token_ms",
            decode="generation_time_ms",
        ),
    )


def _sglang(sglext: Mapping[str, Any]) -> Figures:
    details = sglext.get("spec_tokens_details") or {}
    return Figures(
        rounds=details.get("spec_verify_ct"),
        drafted=details.get("spec_num_proposed_drafts"),
        accepted=details.get("spec_num_correct_drafts"),
        by_position=_positions(details.get("spec_correct_drafts_histogram")),
    )


def _lmstudio(stats: Mapping[str, Any]) -> Figures:
    return Figures(
        drafted=stats.get("total_draft_tokens_count"),
        accepted=stats.get("accepted_draft_tokens_count"),
        method=stats.get("draft_model"),
    )


def _omlx(usage: Mapping[str, Any]) -> Figures:
    """In seconds. Others that speak OpenAI's API have none of these."""
    seconds = _times(
        usage,
        ttft="time_to_first_token",
        prefill="prompt_eval_duration",
        decode="generation_duration",
    )
    return Figures(reported_ms={name: round(1000 * s, 3) for name, s in seconds.items()})


_READERS = {
    "llama-server": (_llama, "timings"),
    "mlx-vlm": (_mlx_vlm, "timings"),
    "vllm": (_vllm, "metrics"),
    "sglang": (_sglang, "sglext"),
    "lmstudio": (_lmstudio, "stats"),
    "openai": (_omlx, USAGE),
}


def _times(record: Mapping[str, Any], **names: str) -> dict[str, float]:
    given = {ours: record.get(its) for ours, its in names.items()}
    return {ours: x for ours, x in given.items() if isinstance(x, int | float)}


def _positions(histogram: Sequence[int] | None) -> list[int]:
    """From rounds by accepted tokens: position i was accepted by all rounds that accepted more
    than i."""
    return [sum(histogram[i:]) for i in range(1, len(histogram))] if histogram else []
