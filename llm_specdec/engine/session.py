"""A target with its drafter in memory: the one door to the engine."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from llm_specdec.constraints import grammar as grammars
from llm_specdec.constraints.forced_completion import TokenTable
from llm_specdec.constraints.grammar import GrammarConstraint
from llm_specdec.engine import measure
from llm_specdec.engine.costs import Costs, Curve
from llm_specdec.engine.drafter import Drafter
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import ALONE, Auto, Fixed, Limits, Policy
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.states import Prefixes
from llm_specdec.engine.target import Target
from llm_specdec.errors import UsageError


@dataclass(frozen=True)
class Weights:
    """What a session holds in memory. kind: of the drafter. `drafter` is the folder of one that
    has files of its own, else None."""

    target: Path
    kind: str = "none"
    drafter: Path | None = None
    drafter_bits: int | None = None
    drafter_group_size: int | None = None
    reads: str = ""  # hidden states a prediction head takes, "" as its layout says


class Session:
    """Loaded weights; every run of it is independent of the others.

    helper: proposes in the drafter's place where it has something better.
    """

    def __init__(
        self,
        weights: Weights,
        target: Target,
        drafter: Drafter | None,
        limits: Limits = ALONE,
        helper: Drafter | None = None,
    ) -> None:
        self.weights, self.target, self.drafter = weights, target, drafter
        self.limits, self.helper = limits, helper

    @property
    def tokenizer(self) -> Any:
        """mlx-lm's TokenizerWrapper."""
        return self.target.tokenizer

    @functools.cached_property
    def dtype(self) -> str:
        """Precision of the target's logits, such as float32."""
        cache = RollbackCache(self.target.model)
        return str(self.target.forward(mx.array([0]), cache).dtype).removeprefix("mlx.core.")

    @functools.cached_property
    def token_table(self) -> TokenTable:
        """What grammars need of the tokenizer; takes up to a second. Raises UnsupportedError."""
        return grammars.read(self.tokenizer, self.target.vocab_size)

    def constraint(self, grammar: str, max_tokens: int) -> GrammarConstraint:
        """For one run: only what the grammar (of `schemas.grammar`) accepts, in `max_tokens`.

        Raises UnsupportedError; UsageError where nothing accepted is that short.
        """
        eos = self.tokenizer.eos_token_ids
        vocab_size = self.target.vocab_size
        return GrammarConstraint(grammar, self.token_table, vocab_size, eos, max_tokens)

    def forget(self) -> None:
        """Give freed memory back, so that a run measures as the first one did."""
        mx.clear_cache()

    def run(
        self,
        request: Request,
        timer: PhaseTimer,
        draft_tokens: int | str = "auto",
        kv_bits: int | None = None,
        costs: Costs | None = None,
        history: Sequence[tuple[int, int]] = (),
        prefix_cache: Prefixes | None = None,
    ) -> Run:
        """Prepare one run; iterate its `tokens()`, then read its `outcome`, whose `entries()`
        are worth keeping where there is a prefix cache.

        draft_tokens "auto" adapts the length to `costs` and to acceptance, and lets the helper
        replace the drafter's proposal; without costs it is a short fixed one and the drafter
        alone. history: (accepted, drafted) by position, of earlier runs.
        Raises UsageError for a logit_bias on a token that the target does not have.
        """
        self._check_bias(request.sampling)
        policy = self._policy(draft_tokens, costs, history)
        cache = RollbackCache(self.target.model, kv_bits=kv_bits, max_draft=max(policy.longest, 1))
        mx.reset_peak_memory()
        helper = self.helper if policy.adapts else None
        return Run(self.target, cache, self.drafter, policy, request, timer, helper, prefix_cache)

    def _check_bias(self, sampling: Sampling) -> None:
        highest = max(sampling.logit_bias, default=-1)
        if highest >= self.target.vocab_size:
            raise UsageError(
                f"logit_bias: the model has no token {highest}: "
                f"ids end at {self.target.vocab_size - 1}"
            )

    def measure(
        self, kv_bits: int | None = None, known: Mapping[str, Curve] | None = None
    ) -> Iterator[tuple[str, Curve]]:
        """Measure rounds on this machine, a part at a time; `known` parts are left out."""
        yield from measure.measure(self, self._timed, self.longest, kv_bits, known)

    def costs(self, parts: Mapping[str, Curve]) -> Costs | None:
        """What the parts of `measure` come to; None while some are missing."""
        whole = set(measure.names(self, self._timed)) <= set(parts)
        return measure.costs(self, parts) if whole else None

    @property
    def _timed(self) -> int:
        """The longest draft whose costs are measured; 0: drafts cost nothing."""
        return self.limits.own if self.limits.timed else 0

    @property
    def longest(self) -> int:
        """The longest draft that `auto` asks for."""
        return max(self.limits.longest.values())

    def _policy(
        self, draft_tokens: int | str, costs: Costs | None, history: Sequence[tuple[int, int]]
    ) -> Policy:
        if draft_tokens != "auto":
            return Fixed(int(draft_tokens) if self.drafter else 0)
        if costs is None:
            length = min(self.limits.fallback, self.limits.own)
            return Fixed(length, f"costs not measured, {length} instead")
        return Auto(costs, self.limits, history)
