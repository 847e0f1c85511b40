"""Where the time of a run goes.

Device work is asynchronous, so a split of a round into draft and verify needs a
synchronisation between them. The first rounds of each draft length and then one in
SYNC_EVERY are synchronised and give the split; the others contribute their exact total,
divided in the proportions of the synchronised rounds of the same length.
"""

import contextlib
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

Seconds = dict[str, float]

ROUND_PHASES = ("draft", "verify", "replay", "commit")
SYNC_FIRST = 2
SYNC_EVERY = 16
ENOUGH = 2  # synchronised rounds whose passes were as wide, to say how long such a pass takes


class PhaseTimer:
    """Phases of one run in seconds; the clock starts when it is made."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._start = self._mark = clock()
        self._end: float | None = None
        self._first_token: float | None = None
        self._before: Seconds = defaultdict(float)  # restore, prefill
        self._split: dict[int, Seconds] = defaultdict(lambda: defaultdict(float))
        self._unsplit: dict[int, float] = defaultdict(float)
        self._rounds: Counter[int] = Counter()
        self._passes: dict[int, list[float]] = defaultdict(list)
        self._current: Seconds = defaultdict(float)
        self.synced_rounds = 0
        self.load = 0.0

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Around loading weights: the time counts as `load`, not as part of the run."""
        start = self._clock()
        yield
        gone = self._clock() - start
        self.load += gone
        self._start += gone
        self._mark += gone

    def add(self, phase: str) -> None:
        """Book the time since the last mark before the rounds: `restore` or `prefill`."""
        self._before[phase] += self._lap()

    def first_token(self) -> None:
        if self._first_token is None:
            self._first_token = self._clock()

    def begin_round(self, length: int) -> bool:
        """Start a round with `length` draft tokens asked for; True when it is to be
        synchronised."""
        self._current = defaultdict(float)
        self._mark = self._clock()  # what came before is left to `other`
        seen = self._rounds[length]
        self._rounds[length] += 1
        return seen < SYNC_FIRST or seen % SYNC_EVERY == 0

    def phase(self, name: str) -> None:
        """Book the time since the last mark to a phase of the current round."""
        self._current[name] += self._lap()

    def end_round(self, length: int, synced: bool, width: int) -> None:
        """width: tokens that the verify pass read."""
        if synced:
            self.synced_rounds += 1
            self._passes[width].append(self._current["verify"] + self._current["replay"])
            for name, seconds in self._current.items():
                self._split[length][name] += seconds
        else:
            self._unsplit[length] += sum(self._current.values())

    def finish(self) -> None:
        self._end = self._clock()

    @property
    def passes(self) -> dict[int, float]:
        """Seconds of a verify pass and the rollback after it by width, medians, where enough were
        synchronised."""
        return {
            width: statistics.median_low(seconds)
            for width, seconds in self._passes.items()
            if len(seconds) >= ENOUGH
        }

    @property
    def wall(self) -> float:
        return (self._end if self._end is not None else self._clock()) - self._start

    @property
    def ttft(self) -> float | None:
        return None if self._first_token is None else self._first_token - self._start

    def phases(self) -> dict[str, float]:
        """Seconds by phase, `other` closing the sum to `wall`."""
        phases = dict.fromkeys(("restore", "prefill", *ROUND_PHASES), 0.0)
        for name, seconds in self._before.items():
            phases[name] += seconds
        for length, rounds in self._split.items():
            total = sum(rounds.values())
            scale = 1 + self._unsplit[length] / total if total else 1.0
            for name, seconds in rounds.items():
                phases[name] += seconds * scale
        phases["other"] = max(0.0, self.wall - sum(phases.values()))
        return phases

    def _lap(self) -> float:
        now = self._clock()
        lap, self._mark = now - self._mark, now
        return lap
