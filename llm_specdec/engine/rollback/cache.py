"""The cache of all layers of one loaded model, and its way back to a shorter length."""

import functools
import weakref
from collections.abc import Callable, Sequence

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import ArraysCache, make_prompt_cache

from llm_specdec.engine.rollback.layer_caches import (
    LayerCache,
    Recurrent,
    flat,
    layer_cache_of,
    rollable,
)
from llm_specdec.engine.rollback.recurrent_modules import recurrent_modules_of


class RollbackCache:
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
            owners = recurrent_modules_of(model, probe, f"kv_bits {kv_bits}" if kv_bits else None)
        self._layer_caches = [
            layer_cache_of(c, owners.get(i, []), forwards) for i, c in enumerate(caches)
        ]
        self._close = weakref.finalize(self, _call_all, _watch(self._layer_caches))

    def before_forward(self, n: int) -> None:
        """Say that `n` tokens are about to go through the model."""
        for layer_cache in self._layer_caches:
            layer_cache.begin(self.length, n, capture=1 < n <= self.max_draft + 1)
        self.length += n

    def can_rollback(self, length: int) -> bool:
        """Whether `rollback(length)` is possible."""
        return length == self.length or (
            0 <= length < self.length
            and all(layer_cache.reaches(length) for layer_cache in self._layer_caches)
        )

    def rollback(self, length: int) -> None:
        """Cover exactly the first `length` tokens again; ValueError where that is too far."""
        if length == self.length:
            return
        if not self.can_rollback(length):
            raise ValueError(f"the cache covers {self.length} tokens and cannot go to {length}")
        for layer_cache in self._layer_caches:
            layer_cache.rollback(length)
        self.length = length

    def arrays(self) -> list[mx.array]:
        """Every array held, to evaluate after prefill."""
        return [array for layer_cache in self._layer_caches for array in layer_cache.arrays()]

    def keys_and_values(self, index: int, rows: int | None = None) -> tuple[mx.array, mx.array]:
        """Of the cache at `index`: the last `rows` positions that it covers, or all, dense and in
        order. A window may hold fewer. Views, which no later forward may find still in use."""
        return self._layer_caches[index].keys_and_values(rows)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())

    def state(self) -> list[mx.array]:
        """What `load_state` needs: a fixed number of arrays a layer, without spare room."""
        return [array for layer_cache in self._layer_caches for array in layer_cache.state()]

    def trims(self, length: int) -> bool:
        """Whether the `state()` of `length` tokens can be cut to any shorter length."""
        return all(layer_cache.trims(length) for layer_cache in self._layer_caches)

    def uncuttable(self, most: int) -> list[list[mx.array] | None]:
        """Of the `state()` now, by layer, what no later state of up to `most` tokens can be cut
        to; None for a layer that gives all of it later."""
        return [
            None if layer_cache.trims(most) else layer_cache.state()
            for layer_cache in self._layer_caches
        ]

    def earlier_state(
        self, length: int, uncuttable: Sequence[list[mx.array] | None]
    ) -> list[mx.array]:
        """The `state()` as it was at `length`, when it gave this `uncuttable`."""
        parts = zip(self._layer_caches, uncuttable, strict=True)
        return [
            array
            for layer_cache, kept in parts
            for array in (layer_cache.cut(length) if kept is None else kept)
        ]

    def load_state(self, arrays: list[mx.array], length: int) -> None:
        """Take over the `state()` of a cache of the same model that covered `length` tokens, or
        more where such a state `trims`. The arrays given are never written to."""
        rest = list(arrays)
        for layer_cache in self._layer_caches:
            mine, rest = rest[: layer_cache.width], rest[layer_cache.width :]
            layer_cache.load(mine, length)
        self.length = length

    def stretched(self, length: int) -> list[mx.array]:
        """A `state()` as if `length` tokens were covered, its rows repeated: the right shapes
        to time a long context without reading one."""
        return [
            array for layer_cache in self._layer_caches for array in layer_cache.stretched(length)
        ]

    def close(self) -> None:
        """Take our captures off the model. Happens by itself when the cache is dropped."""
        self._close()


def _watch(layer_caches: list[LayerCache]) -> list[Callable[[], None]]:
    return [
        layer_cache.watch(module)
        for layer_cache in layer_caches
        if isinstance(layer_cache, Recurrent)
        for module in layer_cache.modules
    ]


def _call_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()
