"""Is what a round emits distributed as the target alone would emit it?

Tens of thousands of rounds of two draft tokens on scripted logits, at once (`mx.vmap`), through
the loop's own `_judge` and `DraftSampler`; only the random keys are handed in. Counted against
exact float64 probabilities: the first token, the second given the first, the third given both,
which is the distribution of every position and of every pair. Also the controls that must fail.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from llm_specdec.constraints import masks
from llm_specdec.drafters.dflash.drafter import DFlashDrafter
from llm_specdec.engine import loop
from llm_specdec.engine.drafter import Proposal
from llm_specdec.engine.loop import Run
from llm_specdec.engine.request import Request
from llm_specdec.engine.sampling import accept, draft_sampler, logits_processors
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.sampling.randomness import Purpose
from tests.drafters import dflash_checkpoints
from tests.engine import reference

VOCAB, DRAFTS, ROUNDS = 12, 2, 60_000
FALSE_ALARM = 1e-8  # per test: about twenty of them stay below 1e-6 together
PROMPT, OUTPUT = [1, 2, 3, 3], [5, 7, 5, 3]
TARGET = np.random.default_rng(11).normal(size=(VOCAB, VOCAB)) * 1.5
DRAFTER = TARGET + np.random.default_rng(12).normal(size=(VOCAB, VOCAB))
# What may follow each token: about half of the vocabulary.
ALLOWED = np.random.default_rng(14).random((VOCAB, VOCAB)) < 0.5

Judge = Callable[[Run, mx.array, Proposal], accept.Verdict]
Propose = Callable[[DraftSampler, mx.array], Proposal]


# Drafters: logits of the next token follow from the last one alone.


def _rows(tokens: mx.array) -> mx.array:
    return mx.array(DRAFTER.astype(np.float32))[tokens]


def same_transforms(draft_sampler: DraftSampler, pending: mx.array) -> Proposal:
    drafted: list[mx.array] = []
    for _ in range(DRAFTS):
        drafted.append(draft_sampler.one(_rows(drafted[-1] if drafted else pending), drafted))
    return draft_sampler.proposal(mx.stack(drafted))


def _own(shape: Callable[[mx.array], mx.array]) -> Propose:
    """A drafter that draws from its own distribution, whatever the run's transforms are."""

    def propose(draft_sampler: DraftSampler, pending: mx.array) -> Proposal:
        drafted: list[mx.array] = []
        probs: list[mx.array] = []
        for i in range(DRAFTS):
            probs.append(shape(_rows(drafted[-1] if drafted else pending)))
            drafted.append(accept.draw(probs[-1], draft_sampler._key(i)))
        return Proposal(mx.stack(drafted), mx.stack(probs))

    return propose


def _best_two(row: mx.array) -> mx.array:
    return mx.softmax(mx.where(row >= mx.sort(row)[-2], row, -mx.inf))


untransformed = _own(mx.softmax)  # proposes tokens that the target's truncation rules out
sparse = _own(_best_two)  # never proposes most tokens that the target may emit


def certain(draft_sampler: DraftSampler, pending: mx.array) -> Proposal:
    """Prompt lookup: no distribution, the token simply stands there."""
    return Proposal(mx.array([6, 2], dtype=mx.int32))


def block(draft_sampler: DraftSampler, pending: mx.array) -> Proposal:
    """Logits of all draft tokens at once, as block drafters have them."""
    tokens = draft_sampler.block(_rows(mx.array([3, 8])))
    return draft_sampler.proposal(tokens)


def _block(version: int, head_rows: int = 0) -> Propose:
    """DFlash draft_sampler two slots at once: the second does not know what the first will be."""

    def propose(draft_sampler: DraftSampler, pending: mx.array) -> Proposal:
        drafter = _block_drafter(version, head_rows)
        rows = mx.stack([_rows(pending), mx.array(DRAFTER.mean(axis=0).astype(np.float32))])
        if drafter._tokens is not None:
            rows = rows[:, drafter._tokens]
        hidden = mx.array(np.random.default_rng(13).normal(size=(DRAFTS, 32)).astype(np.float32))
        if version == 1:
            return draft_sampler.proposal(drafter._drawn(rows, draft_sampler))
        return draft_sampler.proposal(drafter._selected(hidden, rows, draft_sampler))

    return propose


@functools.cache
def _block_drafter(version: int, head_rows: int) -> DFlashDrafter:
    lender = dflash_checkpoints.Lender(vocab=VOCAB)
    drafter = dflash_checkpoints.drafter_for(lender, version, head_rows)
    drafter.start(OUTPUT[-1])
    return drafter


def before_truncation(draft_sampler: DraftSampler, pending: mx.array) -> Proposal:
    """Control: draws after truncation, but reports the distribution before it."""
    proposal = same_transforms(draft_sampler, pending)
    previous = mx.concatenate([pending[None], proposal.tokens[:-1]])
    return Proposal(proposal.tokens, mx.softmax(_rows(previous) / 0.8, axis=-1))


# Judges: the loop's, and two that are wrong.


def _key(run: Run, purpose: Purpose) -> mx.array:
    key: mx.array = loop.__dict__["key"](run.request.seed, run.length, purpose)
    return key


def wrong_residual(run: Run, logits: mx.array, proposal: Proposal) -> accept.Verdict:
    """Control: accept where the target's own draw is equal, but resample from max(p - q, 0)."""
    key = _key(run, Purpose.ACCEPT)
    probs = logits_processors.distribution(logits, run.request.sampling)
    draws = mx.random.categorical(mx.log(probs), key=key)
    accepted = accept._run_length(draws[:-1] == proposal.tokens)
    own = accept.draw(accept._residual(probs, proposal, accepted), _key(run, Purpose.TARGET))
    padded = mx.concatenate([proposal.tokens, own[None]])
    at = mx.arange(len(proposal) + 1) == accepted
    return accept.Verdict(mx.where(at, own, padded), accepted)


def late_history(run: Run, logits: mx.array, proposal: Proposal) -> accept.Verdict:
    """Control: row i is penalised for the history before draft token i - 1."""

    late = functools.partial(logits_processors.penalise, first=-1)
    with patch.object(logits_processors, "penalise", late):
        return Run._judge(run, logits, proposal)


class Follows:
    """A constraint: what may come next follows from the last token, by the table ALLOWED."""

    def __init__(self, last: int) -> None:
        self._last = last

    def allowed(self, drafts: Sequence[int]) -> masks.Bits:
        last = drafts[-1] if drafts else self._last
        return masks.only(np.flatnonzero(ALLOWED[last]).tolist(), VOCAB)

    def commit(self, tokens: Sequence[int]) -> None:
        self._last = tokens[-1]


# Doubles of the loop's masks for drafts that the host cannot see, as under `mx.vmap`.


def _constrained_draw(
    draft_sampler: DraftSampler, row: mx.array, drafted: Sequence[mx.array]
) -> mx.array:
    if draft_sampler._free:
        return row
    return mx.where(
        _allowed(mx.stack(list(drafted)) if drafted else mx.zeros(0, mx.int32))[-1], row, -mx.inf
    )


def _constrained(run: Run, rows: mx.array, drafts: mx.array) -> mx.array:
    if not run.request.constraints:
        return rows
    return mx.where(_allowed(drafts), rows, -mx.inf)


def _allowed(drafts: mx.array) -> mx.array:
    """(k + 1, VOCAB), after the output and each of the drafts (k,)."""
    return mx.array(ALLOWED)[mx.concatenate([mx.array(OUTPUT[-1:]), drafts])]


def cut_draft(run: Run, logits: mx.array, proposal: Proposal) -> accept.Verdict:
    """Control: the draft ends before its first token that is not allowed, and where all before
    it are kept the next one is drawn from p as if nothing had been proposed."""
    verdict = Run._judge(run, logits, proposal)
    fine = mx.take_along_axis(_allowed(proposal.tokens)[:-1], proposal.tokens[:, None], axis=1)
    cut = accept._run_length(fine[:, 0])
    probs = logits_processors.distribution(
        _constrained(run, logits, proposal.tokens), run.request.sampling
    )
    own = accept.draw(probs[cut], _key(run, Purpose.TARGET))
    at = (mx.arange(DRAFTS + 1) == cut) & (verdict.accepted == cut) & (cut < DRAFTS)
    return accept.Verdict(mx.where(at, own, verdict.tokens), verdict.accepted)


@dataclass(frozen=True)
class Script:
    name: str
    sampling: Sampling
    propose: Propose = same_transforms
    judge: Judge = Run._judge
    masked: bool = False


_PENALTIES = {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.4}

SCRIPTS = [
    Script("temperature", Sampling(temperature=0.8)),
    Script("top-k", Sampling(temperature=0.8, top_k=4)),
    Script("top-p", Sampling(temperature=0.8, top_p=0.7)),
    Script("min-p", Sampling(temperature=0.8, min_p=0.1)),
    Script("penalties, card", Sampling(temperature=0.8, **_PENALTIES)),  # type: ignore[arg-type]
    Script(
        "penalties, mlx",
        Sampling(temperature=0.8, penalty_scope="mlx", **_PENALTIES),  # type: ignore[arg-type]
    ),
    Script(
        "all, card",
        Sampling(0.8, 0.9, 6, 0.05, 1.2, 0.3, 0.2, "card", {4: 1.0, 2: -2.0}),
    ),
    Script("all, mlx", Sampling(0.8, 0.9, 6, 0.05, 1.2, 0.3, 0.2, "mlx", {4: 1.0, 2: -2.0})),
    Script("q beyond p", Sampling(temperature=0.8, top_k=3), untransformed),
    Script("p beyond q", Sampling(temperature=1.2), sparse),
    Script("block of drafts", Sampling(0.8, top_k=6, repetition_penalty=1.3), block),
    Script("certain drafts", Sampling(temperature=0.8, top_p=0.9), certain),
    Script("DFlash", Sampling(temperature=0.8, top_p=0.9), _block(1)),
    Script("DFlash 2, penalties", Sampling(temperature=0.8, **_PENALTIES), _block(2)),  # type: ignore[arg-type]
    Script("DFlash 2, top-k, own head", Sampling(temperature=0.9, top_k=6), _block(2, 9)),
    Script(
        "DFlash 2, candidates forbidden",
        Sampling(temperature=0.8, logit_bias=dict.fromkeys(range(2, VOCAB), -1e4)),
        _block(2),
    ),
    Script("mask", Sampling(temperature=0.8), masked=True),
    Script("mask, all, card", Sampling(0.8, 0.9, 6, 0.05, 1.2, 0.3, 0.2), masked=True),
    Script("mask, q beyond p", Sampling(temperature=0.8), untransformed, masked=True),
    Script("mask, certain drafts", Sampling(temperature=0.8), certain, masked=True),
    Script("mask, DFlash 2", Sampling(temperature=0.8, top_p=0.9), _block(2), masked=True),
]
CONTROLS = [
    Script("accept-if-equal, wrong residual", Sampling(temperature=0.8), judge=wrong_residual),
    Script("q before truncation", Sampling(temperature=0.8, top_k=4), before_truncation),
    Script(
        "history off by one",
        Sampling(temperature=0.8, **_PENALTIES),  # type: ignore[arg-type]
        judge=late_history,
    ),
    Script("cut at a forbidden draft", Sampling(0.8), untransformed, cut_draft, masked=True),
]


@dataclass(frozen=True)
class Result:
    script: Script
    rounds: int
    accepted: int
    statistic: float
    freedom: int

    @property
    def p_value(self) -> float:
        return float(chi2.sf(self.statistic, self.freedom))

    @property
    def caught(self) -> bool:
        return self.p_value < FALSE_ALARM


def run(script: Script, rounds: int = ROUNDS, seed: int = 0) -> Result:
    tokens, accepted = _play(script, rounds, seed)
    statistic, freedom = 0.0, 0
    for kept in range(DRAFTS + 1):
        valid = tokens[accepted >= kept]
        for before in product(range(VOCAB), repeat=kept):
            rows = valid[(valid[:, :kept] == before).all(axis=1)] if kept else valid
            x, df = _compare(np.bincount(rows[:, kept], minlength=VOCAB), _exact(script, before))
            statistic, freedom = statistic + x, freedom + df
    return Result(script, rounds, int(accepted.sum()), statistic, freedom)


def _play(script: Script, rounds: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """tokens (rounds, DRAFTS + 1) and accepted (rounds,)."""
    masks = [Follows(OUTPUT[-1])] if script.masked else []
    request = Request(PROMPT, 100, sampling=script.sampling, constraints=masks)
    unused: Any = None
    target: Any = SimpleNamespace(vocab_size=VOCAB)
    run = Run(target, unused, unused, unused, request, unused)
    run.stats.completion = list(OUTPUT)
    run.history.commit(OUTPUT)
    logits = mx.array(TARGET.astype(np.float32))

    def one(keys: mx.array) -> tuple[mx.array, mx.array]:
        def key(seed: int, position: int, purpose: Purpose) -> mx.array:
            drawn = {Purpose.ACCEPT: 0, Purpose.TARGET: 1, Purpose.DRAFT: 2}[purpose]
            return keys[drawn + position - run.length]

        with (
            patch.object(loop, "key", key),
            patch.object(draft_sampler, "key", key),
            patch.object(Run, "_constrained", _constrained),
            patch.object(DraftSampler, "_constrained", _constrained_draw),
        ):
            pending = mx.array(OUTPUT[-1])
            proposal = script.propose(DraftSampler(run.history, request, run.length), pending)
            rows = logits[mx.concatenate([pending[None], proposal.tokens])]
            verdict = script.judge(run, rows, proposal)
        return verdict.tokens, verdict.accepted

    keys = mx.random.split(mx.random.key(seed), rounds * (DRAFTS + 2))
    tokens, accepted = mx.vmap(one)(keys.reshape(rounds, DRAFTS + 2, 2))
    return np.array(tokens), np.array(accepted)


def _exact(script: Script, before: tuple[int, ...]) -> reference.Row:
    last = before[-1] if before else OUTPUT[-1]
    row = reference.penalised(TARGET[last], PROMPT, [*OUTPUT, *before], script.sampling)
    if script.masked:
        row = np.where(ALLOWED[last], row, -np.inf)
    return reference.distribution(row, script.sampling)


def _compare(counts: NDArray[Any], probs: reference.Row) -> tuple[float, int]:
    """Chi-square and degrees of freedom; tokens expected less than 5 times make one bin."""
    n = int(counts.sum())
    if counts[probs == 0].sum():
        return float("inf"), 1
    expected = n * probs
    common = expected >= 5
    observed = [*counts[common], counts[~common].sum()]
    wanted = [*expected[common], expected[~common].sum()]
    parts = [(o - e) ** 2 / e for o, e in zip(observed, wanted, strict=True) if e > 0]
    if wanted[-1] < 5:
        parts = parts[: int(common.sum())]
    return cast(float, sum(parts)), max(len(parts) - 1, 0)


def table(results: list[Result]) -> str:
    lines = [f"{'':32} {'rounds':>7} {'accepted':>8} {'chi-square':>10} {'df':>5} {'p':>9}"]
    lines += [
        f"{r.script.name:32} {r.rounds:7} {r.accepted / r.rounds / DRAFTS:8.3f} "
        f"{r.statistic:10.1f} {r.freedom:5} {r.p_value:9.2g}"
        for r in results
    ]
    return "\n".join(lines)
