"""What the benchmarks share: prompts, engines as plain callables, interleaved timing."""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.build import build, default_folder
from llm_specdec.engine import session
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.phases import Meter
from llm_specdec.engine.request import Request, Tally
from llm_specdec.engine.session import Session, Weights
from llm_specdec.engine.transforms import Sampling

CASES = Path(__file__).parent.parent / "fixtures" / "cases" / "prompts.jsonl"


@dataclass(frozen=True)
class Prompt:
    id: str
    kind: str  # explain, code, prose, copy, long
    text: str
    max_tokens: int


@dataclass(frozen=True)
class Timed:
    """Token ids of a run and when they came, seconds from an arbitrary start."""

    tokens: list[int]
    first: float
    last: float
    tally: Tally | None = None

    @property
    def decode_tps(self) -> float:
        """(tokens − 1) ÷ (last − first token), the one definition every peer allows."""
        return (len(self.tokens) - 1) / (self.last - self.first)


# Token ids as they come; ours also leaves its tally.
Stream = Iterator[list[int]]
Engine = Callable[[list[int], int], tuple[Stream, Tally | None]]


def prompts(kinds: Sequence[str]) -> list[Prompt]:
    rows = [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]
    found = [Prompt(r["id"], r["class"], r["prompt"], r["max_tokens"]) for r in rows]
    return [prompt for prompt in found if prompt.kind in kinds]


def models() -> Path:
    """The folder of demo models, built where missing."""
    return build(default_folder())


def smol(kind: str = "none", folder: str = "smollm2") -> Session:
    names = {"model": "model", "dflash": "dflash2"}
    drafter = models() / "drafters" / names[kind] if kind in names else None
    return session.load(Weights(models() / folder, kind, drafter))


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

    def engine(prompt: list[int], max_tokens: int) -> tuple[Stream, Tally | None]:
        request = Request(prompt, max_tokens, eos, sampling or Sampling(), next(seeds))
        run = loaded.run(request, Meter(), draft_tokens, costs=costs)
        return run.tokens(), run.tally

    return engine


def timed(engine: Engine, prompt: list[int], max_tokens: int) -> Timed:
    stream, tally = engine(prompt, max_tokens)
    tokens: list[int] = []
    first = last = 0.0
    for batch in stream:
        last = time.perf_counter()
        first = first or last
        tokens += batch
    return Timed(tokens, first, last, tally)


def interleaved(
    engines: dict[str, Engine], prompt: list[int], max_tokens: int, runs: int
) -> dict[str, list[Timed]]:
    """A B, B A, A B …: each engine once a round, the order turned every round."""
    found: dict[str, list[Timed]] = {name: [] for name in engines}
    order = list(engines)
    for _ in range(runs):
        for name in order:
            found[name].append(timed(engines[name], prompt, max_tokens))
        order.reverse()
    return found


def rate(runs: Sequence[Timed]) -> float:
    """Median decode rate, tokens a second."""
    return statistics.median(run.decode_tps for run in runs)
