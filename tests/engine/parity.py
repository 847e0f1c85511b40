"""Greedy parity with mlx-lm's plain path, counted: every family of the zoo × lane × transform ×
draft length × prompt. Used by the tests (a rotating part) and `benchmarks.parity` (all)."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import mlx.core as mx
import numpy as np
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_logits_processors

from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.engine.drafter import Drafter
from llm_specdec.engine.hardware import skinny_matmul
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target
from tests import zoo
from tests.drafters import dflash_checkpoints

TOKENS = 40
TIE = 1e-3  # logits; float32 passes of different widths differ by about 1e-5

LANES = ("none", "model", "lookup", "dflash", "oracle", "adversary", "mixed")
LENGTHS = (1, 2, 4, 8)
PROMPTS = {
    "short": [7, 8, 9, 7, 8, 9, 7],
    "long": [*range(20, 50), 11, 12, 13, 20, 21, 22],  # more than two windows
}
RECIPES: dict[str, dict[str, float]] = {
    "plain": {},
    "repetition": {"repetition_penalty": 1.15},
    "presence+frequency": {"presence_penalty": 0.6, "frequency_penalty": 0.4},
    "bias": {},
}
BIAS = {5: 3.0, 17: -4.0, 40: 1.5}


@dataclass(frozen=True)
class Case:
    family: str
    lane: str
    recipe: str
    length: int
    prompt: str


@dataclass(frozen=True)
class Plain:
    """What mlx-lm's plain path writes, and how far apart its best two logits were."""

    tokens: list[int]
    gaps: list[float]


@dataclass(frozen=True)
class Outcome:
    """`differs_at` is the first token that is not the plain path's; `gap` the plain path's
    distance between its best two logits there."""

    case: Case
    drafted: int
    accepted: int
    differs_at: int | None = None
    gap: float = 0.0

    @property
    def verdict(self) -> str:
        if self.differs_at is None:
            return "identical"
        return "tie" if self.gap <= TIE else "broken"


def cases(families: Sequence[str] = tuple(zoo.FAMILIES)) -> Iterator[Case]:
    """Every combination; the lane without a drafter has one length, 0."""
    for family, prompt, recipe, lane in product(families, PROMPTS, RECIPES, LANES):
        for length in LENGTHS if lane != "none" else (0,):
            if runs(family, lane):
                yield Case(family, lane, recipe, length, prompt)


def runs(family: str, lane: str) -> bool:
    """Gemma 3n keeps four states for each position, which no block drafter reads."""
    return (family, lane) != ("gemma3n", "dflash")


@functools.cache
def target(family: str) -> Target:
    """As a loaded one: its matrices multiply a few rows the fast way."""
    model, config = zoo.build(family)
    skinny_matmul.rearrange(model)
    return Target(model, config)


@functools.cache
def near_copy(family: str) -> Target:
    """The target's weights with noise: a model drafter that is right now and then."""
    model, config = zoo.build(family)
    model.update(zoo.noisy(model, 0.05))
    return Target(model, config)


@functools.cache
def block_drafter(family: str, version: int) -> Drafter:
    ids = [0, len(target(family).model.layers) - 1]
    return dflash_checkpoints.drafter_for(
        target(family), version, target_layer_ids=ids, block_size=max(LENGTHS) + 1
    )


def sampling(recipe: str) -> Sampling:
    bias = BIAS if recipe == "bias" else {}
    return Sampling(penalty_scope="mlx", logit_bias=bias, **RECIPES[recipe])  # type: ignore[arg-type]


@functools.cache
def plain(family: str, recipe: str, prompt: str) -> Plain:
    bias = BIAS if recipe == "bias" else None
    processors = make_logits_processors(bias, **RECIPES[recipe])
    steps = generate_step(
        mx.array(PROMPTS[prompt]),
        target(family).model,
        max_tokens=TOKENS,
        logits_processors=processors,
    )
    tokens, gaps = [], []
    for token, logprobs in steps:
        second, best = np.sort(np.array(logprobs))[-2:]
        tokens.append(int(token))
        gaps.append(float(best - second))
    return Plain(tokens, gaps)


def drafter(case: Case) -> Drafter | None:
    text = [*PROMPTS[case.prompt], *plain(case.family, case.recipe, case.prompt).tokens]
    made: dict[str, Drafter | None] = {
        "none": None,
        "lookup": LookupDrafter(),
        "oracle": zoo.oracle(text),
        "adversary": zoo.adversary(text),
        "mixed": zoo.Scripted(text, rate=0.6, seed=case.length),
    }
    if case.lane == "model":
        return ModelDrafter(near_copy(case.family), zoo.VOCAB)
    if case.lane == "dflash":
        return block_drafter(case.family, version=1 if case.length < 4 else 2)
    return made[case.lane]


def run(case: Case) -> Outcome:
    """Decode greedily and compare, token for token."""
    expected = plain(case.family, case.recipe, case.prompt)
    ours = target(case.family)
    request = Request(PROMPTS[case.prompt], TOKENS, sampling=sampling(case.recipe))
    cache = RollbackCache(ours.model, max_draft=max(case.length, 1))
    decoding = Run(ours, cache, drafter(case), Fixed(case.length), request, PhaseTimer())
    got = [token for tokens in decoding.tokens() for token in tokens]
    cache.close()
    stats = decoding.stats
    assert len(got) == TOKENS and cache.length == len(request.prompt) + TOKENS - 1
    pairs = enumerate(zip(got, expected.tokens, strict=True))
    first = next((i for i, (a, b) in pairs if a != b), None)
    gap = 0.0 if first is None else expected.gaps[first]
    return Outcome(case, stats.drafted, stats.accepted, first, gap)


def mlx_lm_tokens(target: Target, prompt: list[int], max_tokens: int) -> list[int]:
    """What mlx-lm's plain path writes, up to its end token."""
    found: list[int] = []
    for token, _ in generate_step(mx.array(prompt), target.model, max_tokens=max_tokens):
        found.append(int(token))
        if token in target.tokenizer.eos_token_ids:
            break
    return found


def first_difference(
    target: Target, prompt: list[int], expected: list[int], got: list[int]
) -> tuple[int, float]:
    """Where two texts part, and the distance between the target's best two logits there."""
    pairs = zip(expected, got, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(got)))
    logits = target.model(mx.array([[*prompt, *expected[:at]]]))[0, -1]
    second, best = np.sort(np.array(logits.astype(mx.float32)))[-2:]
    return at, float(best - second)


def table(outcomes: Sequence[Outcome], by: str) -> str:
    """cases / identical / ties / broken, and drafted / accepted, for each value of a field."""
    lines = [f"{by:20} {'cases':>6} {'identical':>9} {'ties':>5} {'broken':>6} {'accepted':>17}"]
    names = list(dict.fromkeys(str(getattr(o.case, by)) for o in outcomes))
    groups = [(name, [o for o in outcomes if str(getattr(o.case, by)) == name]) for name in names]
    for name, group in [*groups, ("all", list(outcomes))]:
        count = [o.verdict for o in group].count
        drafts = f"{sum(o.accepted for o in group)} of {sum(o.drafted for o in group)}"
        lines.append(
            f"{name:20} {len(group):6} {count('identical'):9} {count('tie'):5} "
            f"{count('broken'):6} {drafts:>17}"
        )
    return "\n".join(lines)
