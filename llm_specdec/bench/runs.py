"""A bench from schedule to stored verdict: parity first, then interleaved runs.

Models are reached through the protocol `Runner`; tests script it.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from llm_specdec import receipts
from llm_specdec.bench import rules
from llm_specdec.bench.results import assemble
from llm_specdec.bench.rules import Case
from llm_specdec.bench.store import Asked, Store
from llm_specdec.errors import UnsupportedError
from llm_specdec.receipts.payload import sha256_of

Said = Sequence[int] | str  # token ids, or a text where a server keeps them to itself


class Greedy(NamedTuple):
    """A run at temperature 0, and what it said."""

    result: receipts.Result
    said: Said


class Runner(Protocol):
    """Runs configurations by name; every run is cold unless it says otherwise."""

    def greedy(self, config: str, prompt: Any) -> Greedy:
        """A run at temperature 0, the first run of a configuration its warm-up."""
        ...

    def timed(self, config: str, prompt: Any, number: int, warm: bool) -> receipts.Result:
        """One measured run with the configuration's own settings; `number` seeds it. Warm:
        as much of the prompt as can be comes from the prefix cache."""
        ...

    def difference(self, prompt: Any, one: Greedy, other: Greedy) -> rules.Difference | None:
        """Where the texts of two greedy runs part, and whether their widths made it so."""
        ...


@dataclass(frozen=True)
class Schedule:
    """What to run. The first of `configs` is the baseline A."""

    asked: Asked
    configs: Sequence[str]
    prompts: Mapping[Case, Said]
    runs: int
    conditions: Mapping[str, Any]

    @property
    def warm(self) -> bool:
        return self.asked.mode == "warm"

    @property
    def steps(self) -> int:
        priming = 1 if self.warm else 0
        return len(self.prompts) * len(self.configs) * (1 + priming + self.runs)


class Progress:
    """Tells what runs and about how long the rest will take, by the steps so far."""

    def __init__(
        self, tell: Callable[[str], None], steps: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell, self._steps, self._clock = tell, steps, clock
        self._start, self._done = clock(), 0

    def step(self, text: str) -> None:
        left = ""
        if self._done:
            seconds = (self._clock() - self._start) / self._done * (self._steps - self._done)
            left = f", about {seconds // 60:.0f}:{seconds % 60:02.0f} left"
        self._done += 1
        self._tell(f"{self._done}/{self._steps} {text}{left}")


def digest(said: Said) -> str:
    """SHA-256 of token ids as receipts have it, or of a text as UTF-8."""
    if isinstance(said, str):
        return hashlib.sha256(said.encode()).hexdigest()
    return sha256_of(said)


def perform(
    schedule: Schedule,
    runner: Runner,
    store: Store,
    progress: Progress,
    others: Callable[[], float] = lambda: 0.0,
) -> dict[str, Any]:
    """Run the schedule and store it; returns the bench as `results.assemble` gives it.

    others: asked at the end for the share of the cores that other processes have used.
    Ctrl-C ends it early: what ran stays, marked partial, and decides nothing.
    """
    bench = store.begin(schedule.asked, schedule.conditions)
    partial = False
    try:
        if _parities(schedule, runner, store, bench, progress):
            _runs(schedule, runner, store, bench, progress)
    except KeyboardInterrupt:
        partial = True
    found = assemble(store.bench(bench))
    store.finish(bench, _verdict(schedule, found, partial, others()), partial)
    return assemble(store.bench(bench))


def _parities(
    schedule: Schedule, runner: Runner, store: Store, bench: int, progress: Progress
) -> bool:
    """Greedy outputs of every configuration against the baseline's; False at the first that
    is broken. These runs warm everything up as well."""
    baseline, *others = schedule.configs
    for case, prompt in schedule.prompts.items():
        progress.step(f"parity, {_named(case)}, {baseline}")
        own = runner.greedy(baseline, prompt)
        for config in others:
            progress.step(f"parity, {_named(case)}, {config}")
            other = runner.greedy(config, prompt)
            found = rules.parity(runner.difference(prompt, own, other))
            hashes = {
                f"sha256_{side}": digest(run.said) for side, run in (("a", own), ("b", other))
            }
            store.add_parity(bench, config, case, found | hashes)
            if found["status"] == "broken":
                return False
    return True


def _runs(schedule: Schedule, runner: Runner, store: Store, bench: int, progress: Progress) -> None:
    for case, prompt in schedule.prompts.items():
        for number, config, warm in _order(schedule):
            heat = "" if warm or not schedule.warm else "cold, "
            progress.step(f"{heat}run {number + 1}, {_named(case)}, {config}")
            run = runner.timed(config, prompt, number, warm)
            if warm and not run.cached_tokens:
                raise UnsupportedError(
                    f"the prefix cache gave {config} nothing for this prompt: bench it cold"
                )
            store.add_run(bench, config, case, number, warm, receipts.payload(run))


def _order(schedule: Schedule) -> Iterator[tuple[int, str, bool]]:
    """(round, configuration, warm); a warm bench begins with one cold run of each, which
    fills the cache and shows what it saves."""
    if schedule.warm:
        yield from ((0, config, False) for config in schedule.configs)
    for number, config in rules.interleaved(schedule.configs, schedule.runs):
        yield number, config, schedule.warm


def _verdict(
    schedule: Schedule, found: Mapping[str, Any], partial: bool, others: float
) -> dict[str, Any]:
    statuses = [
        config["parity"]["status"]
        for case in found["cases"]
        for config in case["configs"]
        if config["parity"]
    ]
    if schedule.asked.mode == "cold" or "broken" in statuses:
        gains = rules.gains_of(found["cases"], schedule.configs[-1])
        doubts = rules.doubts_of(found["cases"], schedule.configs[-1])
        return rules.verdict(gains, statuses, schedule.asked.gate_pct, partial, doubts, others)
    if partial:
        return {"status": "undecided", "reasons": [rules.INTERRUPTED]}
    if schedule.asked.mode == "lanes":
        return rules.best(found["cases"], schedule.configs)
    return {"status": "measured", "reasons": ["warm runs decide nothing"]}


def _named(case: Case) -> str:
    return f"{case.text} at {case.context} tokens"
