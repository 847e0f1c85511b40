"""Native multi-token prediction: the head that ships in the target's own checkpoint."""

from collections.abc import Sequence

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from llm_specdec.drafters.common.lender import Lender
from llm_specdec.drafters.common.shortlist import Shortlist
from llm_specdec.drafters.mtp.head import PredictionHead
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap

CHUNK = 64  # committed rows that are worth a pass of their own, as in prefill


class MTPDrafter:
    """Drafts with the target's prediction head, deeper by feeding its output back.

    Slot p of the head's cache holds what it made of (token p+1, the target's hidden states at
    p). Committed rows wait in `_rows` and run in one pass with the next draft, which starts
    from the last of them: one pass of the head a draft token, whatever was accepted. Slots
    that a draft filled from its own output are dropped as soon as the true rows arrive.
    """

    kind = source = "mtp"
    max_draft: int | None = None

    def __init__(self, head: PredictionHead, target: Lender, tap: Tap) -> None:
        self.taps: tuple[Tap, ...] = (tap,)
        self.head, self.target, self._tap = head, target, tap
        self._shortlist = Shortlist(target.vocab_size)
        self._clear()

    def _clear(self) -> None:
        self._cache = KVCache()
        self._slots = 0  # slots that hold true rows
        self._rows: list[tuple[mx.array, mx.array]] = []  # waiting: tokens (n,), hidden (n, d)
        self._last: mx.array | None = None  # the head's output (1, d) of the last true slot

    def start(self, token: int) -> None:
        self._clear()
        self._shortlist.start([token])

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self._drop_drafts()
        self._shortlist.watch(next_tokens)
        self._rows.append((mx.array(list(next_tokens), dtype=mx.int32), hidden[self._tap]))
        if sum(tokens.size for tokens, _ in self._rows) >= CHUNK:
            self._read_rows()

    def ready(self) -> bool:
        return bool(self._rows) or self._last is not None

    def propose(self, k: int, draw: Draw) -> Proposal:
        self._drop_drafts()
        self._read_rows()
        assert self._last is not None, "propose before ready()"
        output, drafted = self._last, list[mx.array]()
        while True:
            normed = self.head.norm(output)
            drafted.append(draw.one(self._logits(normed, draw), drafted))
            if len(drafted) == k:
                return draw.proposal(mx.stack(drafted))
            # Fed back in the form in which the true hidden states come: normed or not.
            states = normed if self._tap == "final_norm" else output
            output = self._pass(drafted[-1][None], states)

    def _logits(self, normed: mx.array, draw: Draw) -> mx.array:
        """One row (vocab,), over the shortlist alone; cut off there where only the highest
        column counts."""
        logits = self.target.head(normed, self._shortlist.rows)
        return (logits if draw.plain else self._shortlist.whole(logits))[0]

    def state(self) -> list[mx.array]:
        """Keys and values of the true slots, tokens along axis 2; none before the first row."""
        self._drop_drafts()
        self._read_rows()
        return list(self._cache.keys_and_values()) if self._slots else []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self._clear()
        self._shortlist.start(tokens)
        if arrays and len(tokens) > 1:
            self._slots = len(tokens) - 1
            keys, values = (array[:, :, : self._slots] for array in arrays)
            self._cache.state = keys, values, self._slots

    def _drop_drafts(self) -> None:
        self._cache.trim(self._cache.offset - self._slots)

    def _read_rows(self) -> None:
        """Run the waiting rows in one pass; only the last one's output is kept."""
        if not self._rows:
            return
        tokens, hidden = (mx.concatenate(list(part)) for part in zip(*self._rows, strict=True))
        self._rows.clear()
        self._last = self._pass(tokens, hidden)[-1:]
        self._slots = self._cache.offset

    def _pass(self, tokens: mx.array, hidden: mx.array) -> mx.array:
        """tokens (n,), hidden (n, d) → the head's output (n, d), lazily, n slots later."""
        embedded = self.target.embed(tokens)
        output: mx.array = self.head(embedded[None], hidden[None], self._cache)[0]
        return output
