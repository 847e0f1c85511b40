"""What comes of a run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from llm_specdec.engine.request import RunStats
from llm_specdec.engine.states import Entry


@dataclass(frozen=True)
class Outcome:
    """All that a run gives beside its tokens, however it ended.

    cached: prompt tokens whose states came from the prefix cache. reason: why the drafter is
    parked, or drafts as it does, where that needs saying. entries: makes the states worth
    keeping, one at a time, of up to `state_bytes` each; none after a run that failed.
    """

    stats: RunStats
    cached: int
    lane: Literal["drafting", "parked", "off"]
    reason: str | None
    peak_memory: int  # bytes
    state_bytes: int
    entries: Callable[[], Iterator[Entry]]
