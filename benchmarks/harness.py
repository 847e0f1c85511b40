"""What the benchmarks share: prompts, engines as plain callables, interleaved timing."""

import functools
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm

from fixtures.build import build, default_folder
from llm_specdec.backends import Plan, Request, Result, Tokens, local, plan
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.common import language_model
from llm_specdec.drafters.table import KINDS
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.session import Session, Weights
from llm_specdec.engine.target import Target
from llm_specdec.pairings.registry import Pairing
from llm_specdec.settings import resolve

TURN = 16  # tokens
CASES = Path(__file__).parent.parent / "fixtures" / "cases" / "prompts.jsonl"


@dataclass(frozen=True)
class Prompt:
    id: str
    kind: str  # explain, code, prose, copy, long
    text: str
    max_tokens: int


@dataclass(frozen=True)
class Counts:
    """What a peer tells of its rounds."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    passes: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Timed:
    """Token ids of a run, the seconds that all but the first of them took, and what the run
    says of itself; a peer may say nothing."""

    tokens: list[int]
    seconds: float
    outcome: Result | Counts = Counts()

    @property
    def decode_tps(self) -> float:
        """(tokens − 1) ÷ seconds since the first one, the one definition every peer allows."""
        return (len(self.tokens) - 1) / self.seconds


# Token ids as they come, and in the end what the run says of itself.
Stream = Iterator[Tokens | Result | Counts]
Engine = Callable[[list[int], int], Stream]


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
    return sessions.joined(weights, target, KINDS[kind].load(weights, target))


@functools.cache
def arrays() -> Any:
    return language_model.load(models() / "smollm2").model.parameters()


def peer_model(folder: str, ours: Target) -> Any:
    """(model, tokenizer) by mlx-lm alone, with the arrays that `ours` holds."""
    model, tokenizer = mlx_lm.load(str(models() / folder), lazy=True)[:2]
    model.update(ours.model.parameters())
    return model, tokenizer


def rendered(tokenizer: Any, text: str) -> list[int]:
    message = [{"role": "user", "content": text}]
    return list(tokenizer.apply_chat_template(message, add_generation_prompt=True))


def plan_of(loaded: Session, **settings: Any) -> Plan:
    """The plan of runs over these weights, under settings as for `-o`."""
    weights = loaded.weights
    drafter = str(weights.drafter or weights.kind)
    pairing = Pairing("benchmark", str(weights.target), drafter, weights.kind)
    return plan(pairing, None, resolve(pairing, options=settings))


def ours(
    loaded: Session,
    draft_tokens: int | str = "auto",
    costs: Costs | None = None,
    timer: Callable[[], PhaseTimer] = PhaseTimer,
    ignore_eos: bool = False,
    **settings: Any,
) -> Engine:
    """Each call has a seed of its own, so that sampled runs are not one run repeated."""
    ready, seeds = plan_of(loaded, draft_tokens=draft_tokens, **settings), itertools.count()

    def engine(prompt: list[int], max_tokens: int) -> Stream:
        request = Request(tokens=prompt, max_tokens=max_tokens, ignore_eos=ignore_eos)
        seeded = replace(ready, seed=next(seeds))
        events = local.decode(local.Loaded(loaded, costs), seeded, request, timer())
        return (event for event in events if isinstance(event, Tokens | Result))

    return engine


def completed(engine: Engine, prompt: list[int], max_tokens: int) -> Result:
    """The result of one run of ours."""
    return next(event for event in engine(prompt, max_tokens) if isinstance(event, Result))


class Paced:
    """A run that is taken in turns with others. A turn ends when the device has nothing left to
    do for it, so that a pass launched ahead is paid for by the run it belongs to."""

    def __init__(self, engine: Engine, prompt: list[int], max_tokens: int) -> None:
        self._stream = engine(prompt, max_tokens)
        self._tokens: list[int] = []
        self._outcome: Result | Counts = Counts()
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
        return Timed(self._tokens, self._seconds, self._outcome)

    def _read(self, least: int) -> None:
        wanted = len(self._tokens) + least
        while len(self._tokens) < wanted and not self.done:
            event = next(self._stream, None)
            if isinstance(event, Tokens):
                self._tokens += event.ids
            elif event is not None:
                self._outcome = event
            self.done = event is None

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
