"""A run's transforms and randomness, lent to a drafter for one round."""

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from llm_specdec.constraints import masks
from llm_specdec.engine.drafter import Proposal
from llm_specdec.engine.request import Request
from llm_specdec.engine.sampling import accept, logits_processors
from llm_specdec.engine.sampling.logits_processors import History
from llm_specdec.engine.sampling.randomness import Purpose, key


class DraftSampler:
    """`Draw` for one round: the run's transforms and keys, as the drafter may use them."""

    def __init__(self, history: History, request: Request, length: int) -> None:
        self._history, self._length = history, length
        self._sampling, self._seed = request.sampling, request.seed
        self._probs: list[mx.array] = []
        self._held, self._ids = request.constraints, list[int]()  # the drafts, on the host
        self._free = masks.row(self._held, []) is None

    @property
    def plain(self) -> bool:
        return self._sampling.greedy and self._sampling.neutral and self._free

    def one(self, logits: mx.array, drafted: Sequence[mx.array]) -> mx.array:
        drafts = mx.stack(list(drafted)) if drafted else mx.zeros((0,), dtype=mx.int32)
        row = logits_processors.penalise(
            logits[None], self._history, drafts, self._sampling, first=len(drafted)
        )
        row = self._constrained(row, drafted)
        if self._sampling.greedy:
            return mx.argmax(row[0]).astype(mx.int32)
        probs = logits_processors.distribution(row, self._sampling)[0]
        self._probs.append(probs)
        return accept.draw(probs, self._key(len(drafted)))

    def _constrained(self, row: mx.array, drafted: Sequence[mx.array]) -> mx.array:
        """A row (1, vocab) without what is not allowed after `drafted`, for which the host waits:
        a draft token that is not allowed would cost all that come after it. Where the first
        is free, none is waited for."""
        if self._free:
            return row
        self._ids += [cast(int, token.item()) for token in drafted[len(self._ids) :]]
        bits = masks.row(self._held, self._ids)
        return row if bits is None else logits_processors.forbid(row, bits[None])

    def block(self, logits: mx.array) -> mx.array:
        if self.plain:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        tokens: list[mx.array] = []
        for row in logits:
            tokens.append(self.one(row, tokens))
        return mx.stack(tokens)

    def proposal(self, tokens: mx.array) -> Proposal:
        return Proposal(tokens, mx.stack(self._probs) if self._probs else None)

    def _key(self, offset: int) -> mx.array:
        return key(self._seed, self._length + offset, Purpose.DRAFT)
