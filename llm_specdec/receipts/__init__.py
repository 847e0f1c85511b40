"""What a run logs, and how it is read back: payload, log line, SQL view, comparison."""

from llm_specdec.receipts.compare import Side, compare
from llm_specdec.receipts.payload import Lane, Run, line, payload
from llm_specdec.receipts.store import Logged, acceptance, ensure_view, latest, runs

__all__ = [
    "Lane",
    "Logged",
    "Run",
    "Side",
    "acceptance",
    "compare",
    "ensure_view",
    "latest",
    "line",
    "payload",
    "runs",
]
