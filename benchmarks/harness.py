"""What the benchmarks share: prompts, engines as plain callables, interleaved timing."""

import functools
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from fixtures.build import build, default_folder
from llm_specdec.drafters.common import language_model
from llm_specdec.drafters.table import KINDS
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request, RunStats
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.session import Session, Weights

TURN = 16  # tokens
CASES = Path(__file__).parent.parent / "fixtures" / "cases" / "prompts.jsonl"


@dataclass(frozen=True)
class Prompt:
    id: str
    kind: str  # explain, code, prose, copy, long
    text: str
    max_tokens: int


@dataclass(frozen=True)
class Timed:
    """Token ids of a run and the seconds that all but the first of them took."""

    tokens: list[int]
    seconds: float
    stats: RunStats | None = None

    @property
    def decode_tps(self) -> float:
        """(tokens − 1) ÷ seconds since the first one, the one definition every peer allows."""
        return (len(self.tokens) - 1) / self.seconds


# Token ids as they come; ours also leaves its stats.
Stream = Iterator[list[int]]
Engine = Callable[[list[int], int], tuple[Stream, RunStats | None]]


def prompts(kinds: Sequence[str]) -> list[Prompt]:
    rows = [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]
    found = [Prompt(r["id"], r["class"], r["prompt"], r["max_tokens"]) for r in rows]
    return [prompt for prompt in found if prompt.kind in kinds]


def models() -> Path:
    """The folder of demo models, built where missing."""
    return build(default_folder())


def smol(kind: str = "none", folder: str = "smollm2") -> Session:
    """A session of its own, so that runs can take turns, over the one copy of the target's
    arrays: the same weights elsewhere in memory differ in speed by as much as 4 %."""
    names = {"model": "model", "dflash": "dflash2"}
    drafter = models() / "drafters" / names[kind] if kind in names else None
    weights = Weights(models() / folder, kind, drafter)
    target = language_model.load(weights.target)
    target.model.update(arrays())
    return Session(weights, target, KINDS[kind].load(weights, target))


@functools.cache
def arrays() -> Any:
    return language_model.load(models() / "smollm2").model.parameters()


def rendered(tokenizer: Any, text: str) -> list[int]:
    message = [{"role": "user", "content": text}]
    return list(tokenizer.apply_chat_template(message, add_generation_prompt=True))


def ours(
    loaded: Session,
    draft_tokens: int | str = "auto",
    sampling: Sampling | None = None,
    costs: Costs | None = None,
) -> Engine:
    """Each call has a seed of its own, so that sampled runs are not one run repeated."""
    eos = frozenset(loaded.tokenizer.eos_token_ids)
    seeds = itertools.count()

    def engine(prompt: list[int], max_tokens: int) -> tuple[Stream, RunStats | None]:
        request = Request(prompt, max_tokens, eos, sampling or Sampling(), next(seeds))
        run = loaded.run(request, PhaseTimer(), draft_tokens, costs=costs)
        return run.tokens(), run.stats

    return engine


class Paced:
    """A run that is taken in turns with others. A turn ends when the device has nothing left to
    do for it, so that a pass launched ahead is paid for by the run it belongs to."""

    def __init__(self, engine: Engine, prompt: list[int], max_tokens: int) -> None:
        self._stream, self._stats = engine(prompt, max_tokens)
        self._tokens: list[int] = []
        self._seconds = 0.0
        self.done = False
        self._read(1)
        self._seconds = 0.0  # what ran before the first token
        self._settle()

    def turn(self) -> None:
        start = time.perf_counter()
        self._read(TURN)
        self._seconds += time.perf_counter() - start
        self._settle()

    def result(self) -> Timed:
        return Timed(self._tokens, self._seconds, self._stats)

    def _read(self, least: int) -> None:
        wanted = len(self._tokens) + least
        while len(self._tokens) < wanted and not self.done:
            batch = next(self._stream, None)
            self._tokens += batch or []
            self.done = batch is None

    def _settle(self) -> None:
        start = time.perf_counter()
        mx.synchronize()
        self._seconds += time.perf_counter() - start


def timed(engine: Engine, prompt: list[int], max_tokens: int) -> Timed:
    return interleaved({"": engine}, prompt, max_tokens, 1)[""][0]


def interleaved(
    engines: dict[str, Engine], prompt: list[int], max_tokens: int, runs: int
) -> dict[str, list[Timed]]:
    """Runs of all engines at the same time, a few tokens each in turn and the order turned every
    time: a slow spell of a shared machine, which may last seconds, hits all alike."""
    found: dict[str, list[Timed]] = {name: [] for name in engines}
    for _ in range(runs):
        paced = {name: Paced(engine, prompt, max_tokens) for name, engine in engines.items()}
        order = list(paced.values())
        while not all(run.done for run in order):
            for run in order:
                if not run.done:
                    run.turn()
            order.reverse()
        for name, run in paced.items():
            found[name].append(run.result())
    return found


def rate(runs: Sequence[Timed]) -> float:
    """Median decode rate, tokens a second."""
    return statistics.median(run.decode_tps for run in runs)
