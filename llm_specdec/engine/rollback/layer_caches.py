"""One cache object of a model, of whatever kind, with its way back: a layer cache."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from llm_specdec.engine.rollback.window import WindowKVCache
from llm_specdec.engine.taps import observe
from llm_specdec.errors import UnsupportedError


class LayerCache(Protocol):
    """What `RollbackCache` asks of each of its layers, `length` in tokens covered by all.

    begin: a forward of `n` tokens is about to come; capture: a rollback may end inside it.
    reaches: whether `rollback(length)` is possible. width: how many arrays `state` gives. cut:
    the `state` of the first `length` tokens, of a layer that `trims`. keys_and_values: dense, of
    the last `rows` positions (all: None).
    """

    @property
    def width(self) -> int: ...
    def begin(self, length: int, n: int, capture: bool) -> None: ...
    def reaches(self, length: int) -> bool: ...
    def rollback(self, length: int) -> None: ...
    def arrays(self) -> list[mx.array]: ...
    def keys_and_values(self, rows: int | None) -> tuple[mx.array, mx.array]: ...
    def state(self) -> list[mx.array]: ...
    def trims(self, length: int) -> bool: ...
    def cut(self, length: int) -> list[mx.array]: ...
    def stretched(self, length: int) -> list[mx.array]: ...
    def load(self, arrays: list[mx.array], length: int) -> None: ...


class Attention:
    """Full attention, dense or quantised: a position is dropped by forgetting it."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.width = 6 if isinstance(cache, QuantizedKVCache) else 2

    def begin(self, length: int, n: int, capture: bool) -> None:
        pass

    def reaches(self, length: int) -> bool:
        return True

    def rollback(self, length: int) -> None:
        # An interrupted forward may have left this layer where it was.
        self.cache.offset = min(length, self.cache.offset)

    def arrays(self) -> list[mx.array]:
        if self.cache.keys is None:
            return []
        both = (self.cache.keys, self.cache.values)
        return list(both) if self.width == 2 else [array for three in both for array in three]

    def keys_and_values(self, rows: int | None) -> tuple[mx.array, mx.array]:
        end = self._held()
        start = 0 if rows is None else max(0, end - rows)
        held = [array[..., start:end, :] for array in self.arrays()]
        half = self.width // 2
        return self._dense(*held[:half]), self._dense(*held[half:])

    def _dense(self, rows: mx.array, *packing: mx.array) -> mx.array:
        if not packing:
            return rows
        scales, biases = packing
        group_size, bits = self.cache.group_size, self.cache.bits
        return mx.dequantize(rows, scales, biases, group_size=group_size, bits=bits)

    def _held(self) -> int:
        """Rows of the arrays that are covered."""
        return int(self.cache.offset)

    def _rows(self) -> slice:
        """Those of the `state`."""
        return slice(0, self._held())

    def state(self) -> list[mx.array]:
        return self._copied(self._rows())

    def trims(self, length: int) -> bool:
        return True

    def cut(self, length: int) -> list[mx.array]:
        return self._copied(slice(0, length))

    def _copied(self, rows: slice) -> list[mx.array]:
        arrays = [mx.contiguous(array[..., rows, :]) for array in self.arrays()]
        return arrays or [mx.zeros((0,))] * self.width

    def stretched(self, length: int) -> list[mx.array]:
        n = self._rows_of(length)
        return [
            mx.contiguous(mx.concatenate([array] * -(-n // array.shape[-2]), axis=-2)[..., :n, :])
            for array in self.state()
        ]

    def _rows_of(self, length: int) -> int:
        """Rows that the state of `length` tokens has."""
        return length

    def load(self, arrays: list[mx.array], length: int) -> None:
        if length:
            half = self.width // 2
            # Slices are objects of their own: writing a row into one leaves `arrays` alone.
            cut = [array[..., :length, :] for array in arrays]
            keys, values = tuple(cut[:half]), tuple(cut[half:])
            dense = half == 1
            self.cache.keys = keys[0] if dense else keys
            self.cache.values = values[0] if dense else values
        self.cache.offset = length


class Window(Attention):
    """Rows before `start` are gone: a length is reached if the window before it is held."""

    cache: WindowKVCache

    def reaches(self, length: int) -> bool:
        start = self.cache.start
        return start == 0 or length - start >= self.cache.max_size - 1

    def _held(self) -> int:
        return self.cache.offset - self.cache.start

    def _rows(self) -> slice:
        # The window of the next forward, no more: what a warm start can use.
        end = self._held()
        return slice(max(0, end - self.cache.max_size + 1), end)

    def trims(self, length: int) -> bool:
        return length < self.cache.max_size

    def _rows_of(self, length: int) -> int:
        return min(length, self.cache.max_size - 1)

    def load(self, arrays: list[mx.array], length: int) -> None:
        super().load(arrays, length)
        self.cache.start = max(0, length - arrays[0].shape[2]) if length else 0


class Chunk(Attention):
    """Llama 4's chunks: before a forward the model drops all rows but chunk_size, which here
    includes the slack; the chunk of `length` must be whole."""

    cache: "RollableChunkedKVCache"

    def reaches(self, length: int) -> bool:
        return bool(self.cache.start_position <= length - length % self.cache.chunk)

    def _held(self) -> int:
        return int(self.cache.offset - self.cache.start_position)

    def trims(self, length: int) -> bool:
        return length <= self.cache.chunk

    def _rows_of(self, length: int) -> int:
        return min(length, self.cache.chunk + length % self.cache.chunk)

    def load(self, arrays: list[mx.array], length: int) -> None:
        super().load(arrays, length)
        self.cache.start_position = max(0, length - arrays[0].shape[2]) if length else 0


class Recurrent:
    """State that cannot be cut: go back to the state before the forward, then run the modules
    that own it again over the rows to keep."""

    def __init__(self, cache: ArraysCache, modules: list[Module], forwards: int) -> None:
        self.cache = cache
        self.modules = modules
        self.width = len(cache.cache)
        # (length, state) before each of the last forwards
        self._states: deque[tuple[int, list[mx.array | None]]] = deque(maxlen=forwards)
        self.begin(0, 0, capture=False)

    def begin(self, length: int, n: int, capture: bool) -> None:
        self._states.append((length, list(self.cache.cache)))
        self._n, self._capture = n, capture
        self._calls: list[tuple[Module, tuple[Any, ...], dict[str, Any]]] = []

    def watch(self, module: Module) -> Callable[[], None]:
        def keep(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            if self._capture and receives(self.cache, args, kwargs):
                self._calls.append((module, args, kwargs))

        return observe(module, keep)

    def reaches(self, length: int) -> bool:
        lengths = [before for before, _ in self._states]
        return length in lengths or (bool(self._calls) and length > lengths[-1])

    def rollback(self, length: int) -> None:
        self._capture = False
        while self._states[-1][0] > length:
            self._states.pop()
            self._calls = []
        before, state = self._states[-1]
        self.cache.cache = list(state)
        rows = length - before
        for module, args, kwargs in self._calls if rows else ():
            cut = [_first(arg, rows, self._n) for arg in args]
            module(*cut, **{name: _first(arg, rows, self._n) for name, arg in kwargs.items()})

    def arrays(self) -> list[mx.array]:
        return [array for array in self.cache.cache if array is not None]

    def keys_and_values(self, rows: int | None) -> tuple[mx.array, mx.array]:
        raise ValueError("a recurrent state has no keys and values")

    def state(self) -> list[mx.array]:
        return [mx.zeros((0,)) if a is None else mx.contiguous(a) for a in self.cache.cache]

    def trims(self, length: int) -> bool:
        return False

    def cut(self, length: int) -> list[mx.array]:
        raise ValueError("a recurrent state cannot be cut")

    def stretched(self, length: int) -> list[mx.array]:
        return self.state()

    def load(self, arrays: list[mx.array], length: int) -> None:
        self.cache.cache = [array if array.size else None for array in arrays]
        self._states.clear()
        self.begin(length, 0, capture=False)


def _first(argument: Any, rows: int, n: int) -> Any:
    """The first `rows` of an argument that has one row a token: (1, n, …)."""
    if isinstance(argument, mx.array) and argument.shape[:2] == (1, n):
        return argument[:, :rows]
    return argument


def receives(cache: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(arg is cache for arg in args) or any(arg is cache for arg in kwargs.values())


class RollableChunkedKVCache(ChunkedKVCache):  # type: ignore[misc]
    """Keeps `slack` rows more than the model asks for."""

    def __init__(self, chunk_size: int, slack: int) -> None:
        super().__init__(chunk_size + slack)
        self.chunk = chunk_size


def rollable(cache: Any, kv_bits: int | None, group_size: int, slack: int) -> Any:
    """The model's own cache object, or ours that shows its layer the same."""
    if type(cache) is CacheList:
        return CacheList(*(rollable(c, kv_bits, group_size, slack) for c in cache.caches))
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return WindowKVCache(cache.max_size, slack)
    if type(cache) is ChunkedKVCache:
        return RollableChunkedKVCache(cache.chunk_size, slack)
    if type(cache) is KVCache and kv_bits:
        return QuantizedKVCache(group_size=group_size, bits=kv_bits)
    if type(cache) in (KVCache, ArraysCache):
        return cache
    raise UnsupportedError(
        f"this target keeps a {type(cache).__name__}, which cannot be rolled back after a "
        "rejected draft token: use another target"
    )


def flat(caches: Any) -> list[Any]:
    return [part for c in caches for part in (flat(c.caches) if isinstance(c, CacheList) else [c])]


def layer_cache_of(cache: Any, modules: list[Module], forwards: int) -> LayerCache:
    if isinstance(cache, ArraysCache):
        return Recurrent(cache, modules, forwards)
    if isinstance(cache, WindowKVCache):
        return Window(cache)
    return Chunk(cache) if isinstance(cache, RollableChunkedKVCache) else Attention(cache)
