"""The cache of all layers of one loaded model, and its way back to a shorter length."""

import functools
import weakref
from collections.abc import Callable

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import ArraysCache, make_prompt_cache

from llm_specdec.engine.rollback.leaves import Leaf, Recurrent, flat, leaf_of, rollable
from llm_specdec.engine.rollback.owners import owners_of


class TargetCache:
    """One conversation's cache of one loaded model.

    layers: what the model takes as `cache`. length: tokens covered.
    kv_bits quantises full-attention layers from the first token on; windows stay dense.
    max_draft: the longest draft to verify. forwards: how many can be undone; the plain lane
    runs one step ahead of the committed tokens and needs 2, a drafter one a draft token.
    Raises UnsupportedError before anything is changed, naming the cache class or the setting.
    """

    def __init__(
        self,
        model: Module,
        kv_bits: int | None = None,
        kv_group_size: int = 64,
        max_draft: int = 16,
        forwards: int = 2,
    ) -> None:
        slack = max_draft + forwards
        ours = functools.partial(rollable, kv_bits=kv_bits, group_size=kv_group_size, slack=slack)
        self.layers = [ours(cache) for cache in make_prompt_cache(model)]
        self.length = 0
        self.max_draft = max_draft
        caches = flat(self.layers)
        owners: dict[int, list[Module]] = {}
        if kv_bits or any(isinstance(c, ArraysCache) for c in caches):
            probe = [ours(cache) for cache in make_prompt_cache(model)]
            owners = owners_of(model, probe, f"kv_bits {kv_bits}" if kv_bits else None)
        self._leaves = [leaf_of(c, owners.get(i, []), forwards) for i, c in enumerate(caches)]
        self._close = weakref.finalize(self, _call_all, _watch(self._leaves))

    def before_forward(self, n: int) -> None:
        """Say that `n` tokens are about to go through the model."""
        for leaf in self._leaves:
            leaf.begin(self.length, n, capture=1 < n <= self.max_draft + 1)
        self.length += n

    def can_rollback(self, length: int) -> bool:
        """Whether `rollback(length)` is possible."""
        return length == self.length or (
            0 <= length < self.length and all(leaf.reaches(length) for leaf in self._leaves)
        )

    def rollback(self, length: int) -> None:
        """Cover exactly the first `length` tokens again; ValueError where that is too far."""
        if length == self.length:
            return
        if not self.can_rollback(length):
            raise ValueError(f"the cache covers {self.length} tokens and cannot go to {length}")
        for leaf in self._leaves:
            leaf.rollback(length)
        self.length = length

    def arrays(self) -> list[mx.array]:
        """Every array held, to evaluate after prefill."""
        return [array for leaf in self._leaves for array in leaf.arrays()]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())

    def state(self) -> list[mx.array]:
        """What `load_state` needs: a fixed number of arrays a layer, without spare room."""
        return [array for leaf in self._leaves for array in leaf.state()]

    def trims(self, length: int) -> bool:
        """Whether the `state()` of `length` tokens can be cut to any shorter length."""
        return all(leaf.trims(length) for leaf in self._leaves)

    def load_state(self, arrays: list[mx.array], length: int) -> None:
        """Take over the `state()` of a cache of the same model that covered `length` tokens, or
        more where such a state `trims`. The arrays given are never written to."""
        rest = list(arrays)
        for leaf in self._leaves:
            mine, rest = rest[: leaf.width], rest[leaf.width :]
            leaf.load(mine, length)
        self.length = length

    def stretched(self, length: int) -> list[mx.array]:
        """A `state()` as if `length` tokens were covered, its rows repeated: the right shapes
        to time a long context without reading one."""
        return [array for leaf in self._leaves for array in leaf.stretched(length)]

    def close(self) -> None:
        """Take our captures off the model. Happens by itself when the cache is dropped."""
        self._close()


def _watch(leaves: list[Leaf]) -> list[Callable[[], None]]:
    return [
        leaf.watch(module)
        for leaf in leaves
        if isinstance(leaf, Recurrent)
        for module in leaf.modules
    ]


def _call_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()
