"""Native multi-token prediction: the head that ships in the target's own checkpoint."""

import mlx.core as mx

from llm_specdec.drafters.common.lender import Lender
from llm_specdec.drafters.common.recurrent import RecurrentDrafter
from llm_specdec.drafters.mtp.head import PredictionHead
from llm_specdec.engine.drafter import Draw, Tap


class MTPDrafter(RecurrentDrafter):
    """Drafts with the target's prediction head, deeper by feeding its output back."""

    kind = source = "mtp"

    def __init__(self, head: PredictionHead, target: Lender, tap: Tap) -> None:
        self.taps = (tap,)
        self.head = head
        super().__init__(target)

    def _pass(self, tokens: mx.array, states: mx.array) -> mx.array:
        embedded = self.target.embed(tokens)
        output: mx.array = self.head(embedded[None], states, self._caches[0])[0]
        return output

    def _norm(self, output: mx.array) -> mx.array:
        normed: mx.array = self.head.norm(output)
        return normed

    def _fed_back(self, output: mx.array, normed: mx.array) -> mx.array:
        return normed if self.taps == ("final_norm",) else output

    def drawn(self, normed: mx.array, drafted: list[mx.array], draw: Draw) -> mx.array:
        """Over the shortlist alone; cut off there where only the highest column counts."""
        logits = self.target.head(normed, self._shortlist.rows)
        return draw.one((logits if draw.plain else self._shortlist.whole(logits))[0], drafted)
