"""One run in plain numbers: the payload that llm logs, and the line that sums it up."""

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# In the order they happen. `load` is over before the clock starts; the others fill the wall time.
PHASES = ("load", "restore", "prefill", "draft", "verify", "replay", "commit", "other")
ROUND_PHASES = ("draft", "verify", "replay", "commit")
SERVED = "served"  # the lane of a run that a server made


@dataclass(frozen=True)
class Lane:
    """Which drafter ran: kind as in the registry or SERVED, state drafting | parked | off (None
    where a server does not tell), and why."""

    kind: str
    state: str | None
    reason: str | None = None


@dataclass(frozen=True)
class Result:
    """What is known of one run once it has ended. Times in milliseconds; wall and TTFT start
    once the weights are in memory.

    by_length[k] is the number of rounds that drafted k tokens, by_position[i] how often the
    draft token at position i was accepted, by_source[name] (rounds, drafted, accepted) by who
    proposed: lookup may stand in for the drafter. `phases_ms` may leave phases out; `other` is
    worked out. `sync_every` is the N of "one round in N is synchronised" (0: none is).
    `constraint` is what a schema came to.

    engine: of a served run, name, version, method, reported_ms. Its clocks are ours, the network
    included; it gives completion_tokens and no ids. untold: names of the counts that the server
    did not tell, which are null in the receipt.
    """

    version: str
    pairing: str
    profile: str | None
    lane: Lane
    prompt_tokens: int
    cached_tokens: int
    completion_ids: Sequence[int]
    ttft_ms: float
    wall_ms: float
    finish_reason: str
    phases_ms: Mapping[str, float] = field(default_factory=dict)
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    by_length: Sequence[int] = ()
    by_position: Sequence[int] = ()
    by_source: Mapping[str, Sequence[int]] = field(default_factory=dict)
    synced_rounds: int = 0
    sync_every: int = 0
    sampling: Mapping[str, Any] = field(default_factory=dict)
    deviations: Sequence[Any] = ()
    peak_memory_bytes: int | None = None
    reasoning_tokens: int = 0  # of the completion
    constraint: Mapping[str, Any] | None = None
    worker: Mapping[str, Any] | None = None  # resident, pid, queued_ms; None in one's own process
    completion_tokens: int = 0  # of a served run
    engine: Mapping[str, Any] | None = None
    untold: Sequence[str] = ()
    passes: Sequence[Sequence[int]] = ()  # (drafted, committed) of every round; not in a receipt


def payload(run: Result) -> dict[str, Any]:
    """The receipt as llm logs it under "specdec": finite plain values only.

    Units: keys say them (_ms, _tps tokens a second, _bytes); acceptance_rate is accepted ÷
    drafted, mean_acceptance_length 1 + accepted ÷ rounds. A figure without a base (no draft
    token, no round, no decode window) is None, never 0.
    """
    here = run.engine is None
    told = _counts(run)
    completion = told["completion_tokens"]
    rounds, drafted, accepted = told["rounds"], told["drafted"], told["accepted"]
    phases: dict[str, float] | dict[str, None]
    phases = _phases(run) if here else dict.fromkeys(PHASES)
    wall, ttft = round(run.wall_ms, 3), round(run.ttft_ms, 3)
    receipt: dict[str, Any] = _plain(
        {
            "version": run.version,
            "pairing": run.pairing,
            "profile": run.profile,
            "lane": {"kind": run.lane.kind, "state": run.lane.state, "reason": run.lane.reason},
            "tokens": {
                "prompt": told["prompt_tokens"],
                "cached": told["cached_tokens"],
                "completion": completion,
                "reasoning": told["reasoning_tokens"],
            },
            "draft": {
                "rounds": rounds,
                "drafted": drafted,
                "accepted": accepted,
                "acceptance_rate": _ratio(accepted, drafted),
                "mean_acceptance_length": _mean_length(accepted, rounds),
                "by_length": list(run.by_length),
                "by_position": list(run.by_position),
                "by_source": {
                    source: dict(zip(("rounds", "drafted", "accepted"), counted, strict=True))
                    for source, counted in run.by_source.items()
                },
            },
            "phases_ms": phases,
            "ttft_ms": ttft,
            "wall_ms": wall,
            "synced_rounds": run.synced_rounds,
            "sync_every": run.sync_every,
            "rates": {
                "prefill_tps": _prefill_tps(run, phases["prefill"]),
                "decode_tps": _tps(completion, wall - ttft) if (completion or 0) > 1 else None,
                "end_to_end_tps": _tps(completion, wall),
            },
            "sampling": dict(run.sampling),
            "deviations": list(run.deviations),
            "completion_sha256": sha256_of(run.completion_ids) if here else None,
            "longest_repeated_6gram": longest_repeated_6gram(run.completion_ids) if here else None,
            "finish_reason": run.finish_reason,
            "peak_memory_bytes": run.peak_memory_bytes,
            **({"constraint": run.constraint} if run.constraint else {}),
            **({"worker": run.worker} if run.worker else {}),
            **({"engine": run.engine} if run.engine else {}),
        }
    )
    return receipt


def line(specdec: Mapping[str, Any]) -> str:
    """A run in one line; both rates under their own names, and the phase that dominates."""
    rates, draft = specdec["rates"], specdec["draft"]
    parts = [
        _tokens(specdec["tokens"]),
        f"decode {_shown(rates['decode_tps'])} tok/s",
        f"end-to-end {_shown(rates['end_to_end_tps'])} tok/s{_dominant(specdec)}",
        f"acceptance {100 * draft['acceptance_rate']:.1f}% of drafted"
        if draft["acceptance_rate"] is not None
        else _no_drafts(specdec["lane"]),
        _by_engine(specdec["engine"])
        if "engine" in specdec
        else f"phases[{_phase_list(specdec['phases_ms'])}]",
    ]
    if specdec["finish_reason"] == "interrupted":
        parts.append("interrupted")
    return " · ".join(parts)


def sha256_of(token_ids: Sequence[int]) -> str:
    """SHA-256 over the ids as little-endian uint32, one after the other."""
    return hashlib.sha256(struct.pack(f"<{len(token_ids)}I", *token_ids)).hexdigest()


def longest_repeated_6gram(token_ids: Sequence[int]) -> int:
    """How often the most frequent run of six token ids occurs, overlaps counted: 1 where no
    six tokens come twice, 0 below six tokens. A looping output shows a high number."""
    grams = Counter(tuple(token_ids[i : i + 6]) for i in range(len(token_ids) - 5))
    return max(grams.values(), default=0)


COUNTS = (
    "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens",
    "rounds", "drafted", "accepted",
)  # fmt: skip


def _counts(run: Result) -> dict[str, int | None]:
    """Counts by name; None for those that are not told."""
    counts = {name: getattr(run, name) for name in COUNTS}
    if run.engine is None:
        counts["completion_tokens"] = len(run.completion_ids)
    return {name: None if name in run.untold else count for name, count in counts.items()}


def _phases(run: Result) -> dict[str, float]:
    """All phases, `other` closing the sum to the wall time.

    The split of a round is extrapolated from synchronised rounds and can overshoot what the
    clock leaves for it; then it is scaled to fit, its proportions kept.
    """
    given = {name: max(0.0, run.phases_ms.get(name, 0.0)) for name in PHASES}
    room = max(0.0, run.wall_ms - given["restore"] - given["prefill"])
    estimated = sum(given[name] for name in ROUND_PHASES)
    if estimated > room:
        for name in ROUND_PHASES:
            given[name] *= room / estimated
    phases = {name: round(ms, 3) for name, ms in given.items()}
    inside = sum(phases[name] for name in PHASES[1:-1])
    phases["other"] = max(0.0, round(run.wall_ms - inside, 3))
    return phases


def _tps(tokens: int | None, ms: float) -> float | None:
    return round(1000 * tokens / ms, 4) if tokens is not None and ms > 0 else None


def _prefill_tps(run: Result, ms: float | None) -> float | None:
    return None if ms is None else _tps(run.prompt_tokens - run.cached_tokens, ms)


def _ratio(part: int | None, whole: int | None) -> float | None:
    return part / whole if whole and part is not None else None


def _mean_length(accepted: int | None, rounds: int | None) -> float | None:
    per_round = _ratio(accepted, rounds)
    return None if per_round is None else 1 + per_round


def _plain(value: Any) -> Any:
    """`value` as JSON knows it: array scalars unwrapped, anything not finite None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy or mlx scalar
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def _tokens(tokens: Mapping[str, Any]) -> str:
    thought = tokens.get("reasoning")
    said = "–" if tokens["completion"] is None else tokens["completion"]
    return f"{said} tokens" + (f" ({thought} of thinking)" if thought else "")


def _shown(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.1f}"


def _dominant(specdec: Mapping[str, Any]) -> str:
    wall = specdec["wall_ms"]
    if not wall:
        return ""
    if "engine" in specdec:
        return f" (TTFT is {100 * specdec['ttft_ms'] / wall:.0f}% of wall; network included)"
    inside = {name: ms for name, ms in specdec["phases_ms"].items() if name != "load"}
    name = max(inside, key=lambda phase: inside[phase])
    return f" ({name} is {100 * inside[name] / wall:.0f}% of wall)"


def _no_drafts(lane: Mapping[str, Any]) -> str:
    if lane["kind"] == SERVED:
        return {"off": "nothing drafted"}.get(lane["state"], "drafting not told")
    if lane["kind"] == "none":
        return f"off: {lane['reason']}" if lane["reason"] else "no drafter"
    why = f": {lane['reason']}" if lane["reason"] else ""
    return f"nothing drafted ({lane['kind']} {lane['state']}{why})"


def _by_engine(engine: Mapping[str, Any]) -> str:
    """Who answered, and the times that it gives itself."""
    times = " ".join(f"{name}={ms:.1f}ms" for name, ms in engine["reported_ms"].items())
    version = f" {engine['version']}" if engine["version"] else ""
    return f"{engine['name']}{version}[{times}]" if times else f"{engine['name']}{version}"


def _phase_list(phases: Mapping[str, float]) -> str:
    """Phases inside the wall time; a restore is listed where there was one."""
    names = [name for name in PHASES[1:] if name != "restore" or phases["restore"]]
    return " ".join(f"{name}={phases[name]:.1f}ms" for name in names)
