"""A smaller autoregressive model with the target's tokenizer as drafter."""

from collections.abc import Sequence

import mlx.core as mx

from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.target import Target

LONGEST = 16  # draft tokens; each is a forward that may have to be undone
READ_AHEAD = 16  # committed tokens that may wait for the next proposal


class ModelDrafter:
    """Runs a small model one token at a time.

    Its cache covers a prefix of the committed tokens, never more than all but the last; the
    rest waits in `_waiting` and is read in the pass that draws the first draft token.
    """

    kind = source = "model"
    taps: tuple[Tap, ...] = ()
    max_draft: int | None = LONGEST

    def __init__(self, model: Target, vocab_size: int) -> None:
        self._model = model
        self._vocab_size = vocab_size
        self._cache = RollbackCache(model.model, forwards=LONGEST)
        self._waiting: list[int] = []
        self._length = 0  # committed tokens

    def start(self, token: int) -> None:
        self._cache = RollbackCache(self._model.model, forwards=LONGEST)
        self._waiting, self._length = [token], 1

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self._length += len(next_tokens)
        self._waiting += next_tokens
        self._drop_drafts()
        if len(self._waiting) > READ_AHEAD:
            # A prompt is read here, while the target's prefill is timed, not in the first draft.
            self._read_ahead()

    def ready(self) -> bool:
        return True

    def propose(self, k: int, draw: Draw) -> Proposal:
        drafted: list[mx.array] = []
        tokens = mx.array(self._waiting, dtype=mx.int32)
        for _ in range(k):
            logits = self._model.forward(tokens, self._cache)
            drafted.append(draw.one(self._fitted(logits[-1]), drafted))
            tokens = drafted[-1][None]
            mx.async_eval(tokens)  # the device reads it while the host builds the next pass
        return draw.proposal(mx.stack(drafted))

    def state(self) -> list[mx.array]:
        self._drop_drafts()
        self._read_ahead()
        return self._cache.state()

    def trims(self, length: int) -> bool:
        return self._cache.trims(length)

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self.start(tokens[-1])
        self._length = len(tokens)
        self._cache.load_state(arrays, self._length - 1)

    def _drop_drafts(self) -> None:
        """Cover committed tokens only, the last one not; those uncovered wait."""
        covered = min(self._cache.length, self._length - 1)
        while not self._cache.can_rollback(covered):
            covered -= 1  # inside the pass that read what waited: it will be read again
        self._cache.rollback(covered)
        self._waiting = self._waiting[len(self._waiting) - (self._length - covered) :]

    def _read_ahead(self) -> None:
        """Read all that waits but the last token."""
        *read, last = self._waiting
        if read:
            self._model.forward(mx.array(read, dtype=mx.int32), self._cache)
            self._waiting = [last]

    def _fitted(self, row: mx.array) -> mx.array:
        """Cut or fill a row to the target's columns: paddings of equal tokenizers differ."""
        missing = self._vocab_size - row.shape[0]
        if missing <= 0:
            return row[: self._vocab_size]
        return mx.concatenate([row, mx.full((missing,), -mx.inf, dtype=row.dtype)])
