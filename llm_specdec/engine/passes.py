"""Passes of a run through its target."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from llm_specdec.engine.drafter import Hidden, Tap
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target


class Pass(NamedTuple):
    """What a pass over n tokens gives, lazy: logits (n, vocab), and the hidden states that the
    drafter reads. token: of a plain pass the next token (1,), where that was drawn already."""

    logits: mx.array
    hidden: Hidden
    token: mx.array | None = None


class Passes:
    """Over the run's cache. `close` leaves the target as it was found."""

    def __init__(
        self, target: Target, cache: RollbackCache, taps: Sequence[Tap], sampler: Sampler
    ) -> None:
        self._target, self._cache, self._sampler = target, cache, sampler
        self._taps = Taps(target.model, taps)

    def forward(self, tokens: mx.array) -> Pass:
        return Pass(self._target.forward(tokens, self._cache), self._taps.take())

    def launch(self, token: mx.array, unseen: mx.array | None = None) -> Pass:
        """Start a plain pass over `token` (1,), which is committed or the one `unseen`, and the
        draw of the next token, unless a constraint has yet to see the one before."""
        logits, hidden, _ = self.forward(token)
        drawn = None if self._sampler.constraints else self._sampler.draw(logits, unseen)[0]
        mx.async_eval(logits if drawn is None else drawn)
        return Pass(logits, hidden, drawn)

    def close(self) -> None:
        self._taps.remove()
