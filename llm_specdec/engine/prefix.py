"""States that a run takes from the prefix cache, and those that it leaves for it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import mlx.core as mx

from llm_specdec.engine.drafting import Drafting
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.states import Entry, Prefixes


class Checkpoint(NamedTuple):
    """What will be wanted of the states at a boundary and is gone at the end. target: as
    `RollbackCache.uncuttable`."""

    tokens: tuple[int, ...]
    target: list[list[mx.array] | None]
    drafter: list[mx.array]


class PrefixStates:
    """Of target and drafter together: restored, kept at boundaries of the prompt, and kept at
    the end of the run. prefixes: where to look for them; None where nothing is kept."""

    def __init__(
        self,
        cache: RollbackCache,
        drafting: Drafting,
        request: Request,
        prefixes: Prefixes | None = None,
    ) -> None:
        self.cache, self.drafting, self.request, self.prefixes = cache, drafting, request, prefixes
        self.cached = 0  # positions that were restored
        self._checkpoints: list[Checkpoint] = []
        self._sound = True

    def restore(self) -> int:
        """Begin with the longest beginning of the prompt whose states are kept; its length."""
        prompt = self.request.prompt
        restored = self.prefixes.longest(prompt) if self.prefixes else None
        if restored is None:
            self.drafting.start(prompt[0])
            return 0
        entry, length = restored.entry, restored.length
        self.cache.load_state(entry.target, length)
        self.drafting.load_state(entry.drafter, prompt[: length + 1])
        self.evaluate()
        self.cached = length
        return length

    def evaluate(self) -> None:
        """Wait for the states."""
        mx.eval(self.cache.arrays(), self.drafting.state())

    def boundaries(self) -> list[int]:
        """Lengths at which prefill stops for a checkpoint, far enough apart to be worth it; none
        where the state at the end will serve all shorter ones."""
        prompt = self.request.prompt
        if self.prefixes is None or self._trims(self._most):
            return []
        lengths = [self.cached]
        for shared in sorted((*self.request.boundaries(), len(prompt))):
            length = shared - 1  # an entry's tokens are one more than its positions
            if lengths[-1] + self.prefixes.least <= length < len(prompt):
                lengths.append(length)
        return lengths[1:]

    def checkpoint(self, tokens: Sequence[int]) -> None:
        """Keep of the states, which are those after all of `tokens` but the last, what cannot be
        cut from the states at the end."""
        target, drafter = self.cache.uncuttable(self._most), self._drafter_state()
        mx.eval(target, drafter)
        self._checkpoints.append(Checkpoint(tuple(tokens), target, drafter))

    def discard(self) -> None:
        """The run failed: nothing of it is worth keeping."""
        self._sound = False

    def entries(self, tokens: Sequence[int]) -> Iterator[Entry]:
        """The states worth keeping after a run over `tokens`: the checkpoints, and the end. Each
        is a copy of its own, made when it is asked for."""
        if not self._sound:
            return
        for one in self._checkpoints:
            length = len(one.tokens) - 1
            yield self._entry(one.tokens, self.cache.earlier_state(length, one.target), one.drafter)
        tokens = tokens[: self.drafting.known]
        if self.cache.can_rollback(len(tokens) - 1):  # no drafter was interrupted at work
            self.cache.rollback(len(tokens) - 1)
            yield self._entry(tokens, self.cache.state(), self._drafter_state())

    def _entry(
        self, tokens: Sequence[int], target: list[mx.array], drafter: list[mx.array]
    ) -> Entry:
        """Copies of exact length."""
        mx.eval(target, drafter)
        return Entry(tuple(tokens), target, drafter, exact=not self._trims(len(tokens) - 1))

    def _drafter_state(self) -> list[mx.array]:
        return [mx.contiguous(array) for array in self.drafting.state()]

    @property
    def _most(self) -> int:
        """Tokens that the run has at its end, at most."""
        return len(self.request.prompt) + self.request.max_tokens

    def _trims(self, length: int) -> bool:
        return self.cache.trims(length) and self.drafting.trims(length)
