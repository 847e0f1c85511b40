"""The last token, as often as it is asked for."""

from collections.abc import Sequence

import mlx.core as mx

from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap


class EchoDrafter:
    kind = source = "echo"
    taps: tuple[Tap, ...] = ()
    max_draft: int | None = 4

    def __init__(self) -> None:
        self._last = 0

    def start(self, token: int) -> None:
        self._last = token

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self._last = next_tokens[-1]

    def ready(self) -> bool:
        return True

    def propose(self, k: int, draw: Draw) -> Proposal:
        return Proposal(mx.array([self._last] * k, dtype=mx.int32))

    def state(self) -> list[mx.array]:
        return []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self._last = tokens[-1]
