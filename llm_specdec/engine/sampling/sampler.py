"""A run's way from logits to tokens: penalise → constrain → draw."""

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from llm_specdec.constraints import masks
from llm_specdec.engine.drafter import Proposal
from llm_specdec.engine.request import Request
from llm_specdec.engine.sampling import accept, logits_processors
from llm_specdec.engine.sampling.accept import Verdict
from llm_specdec.engine.sampling.logits_processors import History
from llm_specdec.engine.sampling.randomness import Purpose, key


class Sampler:
    """The one way for verify passes, plain steps and drafters.

    length: committed tokens, prompt and completion; random keys follow from it and the seed.
    """

    def __init__(self, request: Request, vocab_size: int) -> None:
        self.sampling, self.constraints = request.sampling, request.constraints
        self.length = len(request.prompt)
        self._seed = request.seed
        self._history = History(request.prompt, vocab_size)

    @property
    def free(self) -> bool:
        """Whether no constraint holds for the next token."""
        return masks.row(self.constraints, []) is None

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in the next tokens of the output."""
        self.length += len(tokens)
        if self.sampling.penalises:
            self._history.commit(tokens)
        for constraint in self.constraints:
            constraint.commit(tokens)

    def judge(self, logits: mx.array, proposal: Proposal) -> Verdict:
        """Which draft tokens the target keeps.

        Shapes: logits (k + 1, vocab), row i of the pass after i draft tokens.
        """
        rows = self._constrained(self._penalised(logits, proposal.tokens, 0), proposal.tokens, 0)
        if self.sampling.greedy:
            return accept.greedy(rows, proposal.tokens)
        probs = logits_processors.distribution(rows, self.sampling)
        return accept.sampled(
            probs, proposal, self._key(0, Purpose.ACCEPT), self._key(0, Purpose.TARGET)
        )

    def draw(
        self,
        logits: mx.array,
        after: mx.array | None = None,
        purpose: Purpose = Purpose.TARGET,
        free: bool = False,
    ) -> tuple[mx.array, mx.array | None]:
        """Draw the token that follows the committed ones and then `after` (n,), which are not
        committed, from its logits (1, vocab). free: no constraint holds for it.

        Returns the token (1,) int32 and the distribution (vocab,) that it was drawn from, None
        where it was certain (greedy).
        """
        unseen = mx.zeros((0,), dtype=mx.int32) if after is None else after
        n = unseen.size
        row = self._penalised(logits, unseen, n)
        row = row if free else self._constrained(row, unseen, n)
        if self.sampling.greedy:
            return mx.argmax(row, axis=-1).astype(mx.int32), None
        probs = logits_processors.distribution(row, self.sampling)[0]
        return accept.draw(probs, self._key(n, purpose))[None], probs

    def _penalised(self, rows: mx.array, drafts: mx.array, first: int) -> mx.array:
        """Rows (m, vocab), row i after the first `first` + i draft tokens (k,)."""
        return logits_processors.penalise(rows, self._history, drafts, self.sampling, first)

    def _constrained(self, rows: mx.array, drafts: mx.array, first: int) -> mx.array:
        """As `_penalised`: rows without the tokens that are not allowed there."""
        if not self.constraints:
            return rows
        mx.async_eval(rows)  # the device goes on while the host finds the masks
        bits = masks.rows(self.constraints, cast(list[int], drafts.tolist()), first)
        return rows if bits is None else logits_processors.forbid(rows, bits)

    def _key(self, offset: int, purpose: Purpose) -> mx.array:
        return key(self._seed, self.length + offset, purpose)
