"""What a run logs, and how it is read back: payload, log line, SQL view, comparison."""

from llm_specdec.receipts.compare import Side, compare
from llm_specdec.receipts.payload import COUNTS, SERVED, Lane, Result, line, payload
from llm_specdec.receipts.stats import stats
from llm_specdec.receipts.store import (
    SORTS,
    Logged,
    acceptance,
    ensure_view,
    latest,
    models,
    runs,
    turn,
)
from llm_specdec.receipts.warm import Warm, warm_starts

__all__ = [
    "COUNTS",
    "SERVED",
    "SORTS",
    "Lane",
    "Logged",
    "Result",
    "Side",
    "Warm",
    "acceptance",
    "compare",
    "ensure_view",
    "latest",
    "line",
    "models",
    "payload",
    "runs",
    "stats",
    "turn",
    "warm_starts",
]
