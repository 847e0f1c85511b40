"""The run's sampler, its keys and the target's cache, lent to a drafter for one round."""

from collections.abc import Sequence

import mlx.core as mx

from llm_specdec.engine.drafter import Proposal
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.randomness import Purpose
from llm_specdec.engine.sampling.sampler import Sampler


class DraftSampler:
    """`Draw` for one round. A draft token that is not allowed would cost all that come after it,
    so drafts keep to the run's constraints too, and the host waits for each draft token; unless
    no constraint holds for the first. cache: the target's, where a drafter may ask for it."""

    def __init__(self, sampler: Sampler, cache: RollbackCache | None = None) -> None:
        self._sampler, self._free, self._cache = sampler, sampler.free, cache
        self._probs: list[mx.array] = []

    @property
    def plain(self) -> bool:
        sampling = self._sampler.sampling
        return sampling.greedy and sampling.neutral and self._free

    def one(self, logits: mx.array, drafted: Sequence[mx.array]) -> mx.array:
        after = mx.stack(list(drafted)) if drafted else None
        token, probs = self._sampler.draw(logits[None], after, Purpose.DRAFT, self._free)
        if probs is not None:
            self._probs.append(probs)
        return token[0]

    def block(self, logits: mx.array) -> mx.array:
        if self.plain:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        tokens: list[mx.array] = []
        for row in logits:
            tokens.append(self.one(row, tokens))
        return mx.stack(tokens)

    def proposal(self, tokens: mx.array) -> Proposal:
        return Proposal(tokens, mx.stack(self._probs) if self._probs else None)

    def keys_and_values(self, layer: int, rows: int | None = None) -> tuple[mx.array, mx.array]:
        assert self._cache is not None
        return self._cache.keys_and_values(layer, rows)
