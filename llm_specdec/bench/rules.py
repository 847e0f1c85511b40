"""The rules of a bench as pure functions: order, means, gains, parity, verdict.

Every figure comes from receipts (`receipts.payload`), so a decode rate here is what it is in
llm's log. A case is one prompt: a class of text at a context length in tokens.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from llm_specdec.bench.machine import BUSY

GATE = 15.0  # percent of median decode gain a drafter must show
# Why a bench decides nothing.
INTERRUPTED = "the bench was interrupted"
DIFFERS = "greedy texts differ, and a server does not show whether that is a tie"

Receipt = Mapping[str, Any]
Figures = Mapping[str, Any]  # one rate of one configuration: runs, mean, median


class Case(NamedTuple):
    text: str  # reasoning | code | prose | a prompt file's entry
    context: int  # prompt tokens


def interleaved(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """(round, name): every configuration once a round, the order turned round each time, so
    that a machine that warms up or slows down favours none of them."""
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            yield number, name


def figures(values: Iterable[float | None]) -> Figures | None:
    """Every run beside mean and median; None where no run has the figure."""
    runs = list(values)
    known = [value for value in runs if value is not None]
    if not known:
        return None
    return {"runs": runs, "mean": statistics.fmean(known), "median": statistics.median(known)}


def summary(receipts: Sequence[Receipt], warm: bool = False) -> dict[str, Any]:
    """What the runs of one configuration on one case come to.

    Rates in tokens a second; acceptance over all draft tokens of the runs; phases as a share
    of wall time. Warm runs have no decode rate to report: they compare end-to-end only.
    """
    rounds, drafted, accepted = (
        _total(receipt["draft"][name] for receipt in receipts)
        for name in ("rounds", "drafted", "accepted")
    )
    return {
        "decode_tps": None if warm else figures(r["rates"]["decode_tps"] for r in receipts),
        "end_to_end_tps": figures(r["rates"]["end_to_end_tps"] for r in receipts),
        "ttft_ms": figures(r["ttft_ms"] for r in receipts),
        "acceptance_rate": accepted / drafted if drafted and accepted is not None else None,
        "mean_acceptance_length": 1 + accepted / rounds
        if rounds and accepted is not None
        else None,
        "accepted_by_position": _by_position(receipts),
        "phases_share": _shares(receipts),
        "longest_repeated_6gram": max(
            (r["longest_repeated_6gram"] or 0 for r in receipts), default=0
        ),
        "completion_tokens": [r["tokens"]["completion"] for r in receipts],
        "lane_states": sorted({r["lane"]["state"] or "not told" for r in receipts}),
    }


def _total(counts: Iterable[int | None]) -> int | None:
    """None where one of them is not told."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def gain(a: Figures | None, b: Figures | None) -> dict[str, Any] | None:
    """What B gains over A, in percent, from the `figures` of one rate.

    `low` and `high` span the gains of any run of B over any run of A; where that span holds
    0, the spread swallows the gain.
    """
    if a is None or b is None:
        return None
    runs_a, runs_b = ([run for run in side["runs"] if run is not None] for side in (a, b))
    low, high = percent(max(runs_a), min(runs_b)), percent(min(runs_a), max(runs_b))
    return {
        "median_pct": percent(a["median"], b["median"]),
        "mean_pct": percent(a["mean"], b["mean"]),
        "low_pct": low,
        "high_pct": high,
        "swallowed": low <= 0 <= high,
    }


def percent(a: float, b: float) -> float:
    return 100 * (b / a - 1)


class Difference(Protocol):
    """Where two greedy outputs part, see `engine.replay.Difference`."""

    @property
    def position(self) -> int: ...

    @property
    def gap(self) -> float | None: ...

    @property
    def exact(self) -> bool | None: ...


def parity(found: Difference | None) -> dict[str, Any]:
    """What comes of the greedy outputs of two configurations: identical; tie, where each token
    is the target's own at the width it was asked with; broken; differs, where a server shows no
    logits that would tell (the position is then one of characters). gap: of the target's two
    best logits at the first difference, in the baseline's passes."""
    if found is None:
        return {"status": "identical", "position": None, "gap": None}
    status = "differs" if found.exact is None else "tie" if found.exact else "broken"
    return {"status": status, "position": found.position, "gap": found.gap}


def verdict(
    gains: Sequence[tuple[Case, Figures | None]],
    statuses: Sequence[str],
    gate: float | None,
    partial: bool,
    doubts: Sequence[str] = (),
    others: float = 0.0,
) -> dict[str, Any]:
    """adopted | vetoed | broken | undecided | measured (without a gate), with the gain at each
    context and the reasons.

    The gain at a context is the median over its cases, and so are the ends of its spread.
    Adopted: it reaches the gate at every context, every output identical or a tie. Undecided:
    stopped early, no decode rate, a spread that holds 0, or a machine that others kept busy
    (`others`: the share of its cores that they used). `doubts` are reasons not to trust an
    adoption much; they do not change it.
    """
    by_context = [
        {"context": context} | _at([found for case, found in gains if case.context == context])
        for context in sorted({case.context for case, _ in gains})
    ]
    return {
        "gate_pct": gate,
        "gains": by_context,
        "others_share": round(others, 3),
        **_decide(by_context, statuses, gate, partial, doubts, others),
    }


def _at(gains: Sequence[Figures | None]) -> dict[str, float | None]:
    """A context's gain and spread from those of its cases."""
    return {
        f"{name}_pct": _median([found[f"{of}_pct"] if found else None for found in gains])
        for name, of in (("gain", "median"), ("low", "low"), ("high", "high"))
    }


def gains_of(cases: Iterable[Mapping[str, Any]], config: str) -> list[tuple[Case, Figures | None]]:
    """What a configuration gains in decode rate, for each case of a bench: see `gain`."""
    return [
        (Case(case["text"], case["context"]), (row["gain"] or {}).get("decode_tps"))
        for case in cases
        for row in case["configs"]
        if row["config"] == config
    ]


def best(cases: Sequence[Mapping[str, Any]], configs: Sequence[str]) -> dict[str, Any]:
    """Which lane this machine should use: the one whose median gain over the cases is highest,
    or the baseline where none gains; `reasons` are those to doubt it."""
    gains = {
        config: _at([found for _, found in gains_of(cases, config)])["gain_pct"]
        for config in configs[1:]
    }
    known = {config: gain for config, gain in gains.items() if gain is not None and gain > 0}
    lane = max(known, key=lambda config: known[config], default=configs[0])
    return {
        "status": "recommended",
        "config": lane,
        "gains": gains,
        "reasons": doubts_of(cases, lane),
    }


def doubts_of(cases: Iterable[Mapping[str, Any]], config: str) -> list[str]:
    """Where the runs of a configuration and of the baseline overlap."""
    return [
        f"at {case['context']} tokens of {case['text']} the spread swallows the gain"
        for case in cases
        for row in case["configs"]
        if row["config"] == config and row["gain"] and _swallowed(row["gain"]["decode_tps"])
    ]


def _swallowed(gain: Mapping[str, Any] | None) -> bool:
    return gain is None or gain["swallowed"]


def _decide(
    gains: Sequence[Mapping[str, Any]],
    statuses: Sequence[str],
    gate: float | None,
    partial: bool,
    doubts: Sequence[str],
    others: float,
) -> dict[str, Any]:
    if "broken" in statuses:
        return {"status": "broken", "reasons": ["greedy output differs from the target's own"]}
    if partial:
        return {"status": "undecided", "reasons": [INTERRUPTED]}
    if "differs" in statuses:
        return {"status": "undecided", "reasons": [DIFFERS]}
    if gate is None:
        return {"status": "measured", "reasons": []}
    if not gains or any(row["gain_pct"] is None for row in gains):
        return {"status": "undecided", "reasons": ["no decode rate to compare"]}
    if unsure := _unsure(gains, gate, others):
        return {"status": "undecided", "reasons": unsure}
    below = [
        f"{row['gain_pct']:+.1f}% at {row['context']} tokens is below the gate of {gate:g}%"
        for row in gains
        if row["gain_pct"] < gate
    ]
    return {"status": "vetoed" if below else "adopted", "reasons": below or list(doubts)}


def _unsure(gains: Sequence[Mapping[str, Any]], gate: float, others: float) -> list[str]:
    """Why these figures carry no verdict; nothing where they do."""
    reasons = []
    if others > BUSY:
        reasons.append(
            f"other processes used {others:.0%} of the cores: bench again once they are done"
        )
    for row in gains:
        if row["low_pct"] <= 0 <= row["high_pct"]:
            reach = "" if row["high_pct"] >= gate else f", and no run reaches {gate:g}%"
            reasons.append(
                f"the spread swallows {row['gain_pct']:+.1f}% at {row['context']} tokens "
                f"(runs {row['low_pct']:+.1f}% to {row['high_pct']:+.1f}%{reach}): "
                "try more --runs, or a quieter machine"
            )
    return reasons


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def _by_position(receipts: Sequence[Receipt]) -> list[float]:
    """Share of the rounds that drafted a token at a position in which it was accepted."""
    tried: list[int] = []
    accepted: list[int] = []
    for receipt in receipts:
        for length, rounds in enumerate(receipt["draft"]["by_length"]):
            _add(tried, [rounds] * length)
        _add(accepted, receipt["draft"]["by_position"])
    return [hits / rounds for hits, rounds in zip(accepted, tried, strict=False) if rounds]


def _add(totals: list[int], more: Sequence[int]) -> None:
    totals.extend([0] * (len(more) - len(totals)))
    for position, count in enumerate(more):
        totals[position] += count


def _shares(receipts: Sequence[Receipt]) -> dict[str, float]:
    wall = sum(receipt["wall_ms"] for receipt in receipts)
    names = [name for name in receipts[0]["phases_ms"] if name != "load"] if receipts else []
    return {
        name: sum(receipt["phases_ms"][name] or 0.0 for receipt in receipts) / wall if wall else 0.0
        for name in names
    }
