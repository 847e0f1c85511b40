"""Many runs in a few figures, for each model and lane."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from llm_specdec.receipts.store import Logged


def stats(runs: Iterable[Logged]) -> list[dict[str, Any]]:
    """One row a model and lane, in the order in which they first ran.

    decode_tps: median. end_to_end_tps and ttft_ms: medians of the cold runs alone, as warm ones
    skip most of the prompt. acceptance_rate: over all draft tokens. None without such runs.
    """
    groups: dict[tuple[str, str], list[Any]] = {}
    for run in runs:
        groups.setdefault((run.model, run.specdec["lane"]["kind"]), []).append(run.specdec)
    return [_row(*key, receipts) for key, receipts in groups.items()]


def _row(model: str, lane: str, receipts: Sequence[Any]) -> dict[str, Any]:
    cold = [receipt for receipt in receipts if not receipt["tokens"]["cached"]]
    drafted, accepted = (
        sum(receipt["draft"][name] or 0 for receipt in receipts) for name in ("drafted", "accepted")
    )
    return {
        "model": model,
        "lane": lane,
        "runs": len(receipts),
        "warm": len(receipts) - len(cold),
        "completion_tokens": sum(receipt["tokens"]["completion"] or 0 for receipt in receipts),
        "decode_tps": _median(receipt["rates"]["decode_tps"] for receipt in receipts),
        "end_to_end_tps": _median(receipt["rates"]["end_to_end_tps"] for receipt in cold),
        "ttft_ms": _median(receipt["ttft_ms"] for receipt in cold),
        "acceptance_rate": accepted / drafted if drafted else None,
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
