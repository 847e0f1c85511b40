"""The target's cache, with a way back from rejected draft tokens for every kind of layer.

    cache = TargetCache(model, max_draft=8)
    cache.before_forward(n)                              # n: rows of the forward to come
    logits = model(tokens[None], cache=cache.layers)     # tokens (n,)
    cache.rollback(length)                               # the first `length` tokens stay

`length` is absolute, so a rollback done twice (after an interrupt, say) is done once, and one
to the current length is free. It reaches any length of the last forward and the start of the
`forwards` last ones, further where the kind allows it (`can_rollback`). What happens inside:

- full attention (also quantised): positions beyond `length` are overwritten later;
- sliding window: our own cache in temporal order, which keeps enough rows behind the window
  that a shorter length still finds all it attends to;
- recurrent (GatedDeltaNet, Mamba, short convolutions, RWKV): the states before the last
  forwards are kept, as references. The modules' inputs are kept while at most max_draft + 1
  tokens are verified, and the modules themselves are run again on the rows to keep. MLX is
  lazy: only what the state depends on is computed, the outputs are not.
"""

import functools
import inspect
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from llm_specdec.engine.taps import modules_of, observe
from llm_specdec.errors import UnsupportedError


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
        ours = functools.partial(_ours, kv_bits=kv_bits, group_size=kv_group_size, slack=slack)
        self.layers = [ours(cache) for cache in make_prompt_cache(model)]
        self.length = 0
        self.max_draft = max_draft
        caches = _flat(self.layers)
        owners: dict[int, list[Module]] = {}
        if kv_bits or any(isinstance(c, ArraysCache) for c in caches):
            probe = [ours(cache) for cache in make_prompt_cache(model)]
            owners = _owners(model, probe, f"kv_bits {kv_bits}" if kv_bits else None)
        self._leaves = [_leaf(c, owners.get(i, []), forwards) for i, c in enumerate(caches)]
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


class WindowKVCache:
    """Keys and values of a sliding-window layer, in temporal order.

    Attention sees what mlx-lm's RotatingKVCache shows it: up to max_size - 1 earlier rows and
    the new ones. Rows are dropped when room runs out, every `spare` tokens; `slack` rows stay
    beyond those that the window needs, for lengths before the current one.
    Shapes: keys, values (1, heads, room, head_dim); row i is position start + i.
    """

    spare = 256

    def __init__(self, max_size: int, slack: int) -> None:
        self.max_size, self.slack = max_size, slack
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self.offset = 0
        self.start = 0
        self._shown = 0  # first position that the last forward attends to

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        new = keys.shape[2]
        self._shown = self.offset - min(self.offset, self.max_size - 1)
        if self.keys is None or self.offset - self.start + new > self.keys.shape[2]:
            start = max(self.start, self._shown - self.slack)
            self.keys = self._room(self.keys, keys, start)
            self.values = self._room(self.values, values, start)
            self.start = start
        row = self.offset - self.start
        self.keys[..., row : row + new, :] = keys
        assert self.values is not None
        self.values[..., row : row + new, :] = values
        self.offset += new
        return self.keys_and_values()

    def _room(self, old: mx.array | None, new: mx.array, start: int) -> mx.array:
        shape = (*new.shape[:2], new.shape[2] + self.spare, new.shape[3])
        room = mx.zeros(shape, new.dtype)
        if old is None:
            return room
        kept = old[..., start - self.start : self.offset - self.start, :]
        return mx.concatenate([kept, room], axis=2)

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """What the last forward attends to; layers that share these keys read it again."""
        assert self.keys is not None and self.values is not None
        rows = slice(self._shown - self.start, self.offset - self.start)
        return self.keys[..., rows, :], self.values[..., rows, :]

    def make_mask(
        self, n: int, window_size: int | None = None, return_array: bool = False
    ) -> mx.array | str | None:
        before = min(self.offset, self.max_size - 1)
        window = window_size or self.max_size
        if n == 1 and before < window:
            return None
        if n == 1 or before + n > window or return_array:
            mask: mx.array = create_causal_mask(n, before, window_size=window)
            return mask
        return "causal"

    def empty(self) -> bool:
        return self.keys is None


class _Leaf(Protocol):
    """One cache object of the model, with its way back."""

    @property
    def width(self) -> int: ...  # how many arrays `state` gives
    def begin(self, length: int, n: int, capture: bool) -> None: ...
    def reaches(self, length: int) -> bool: ...
    def rollback(self, length: int) -> None: ...
    def arrays(self) -> list[mx.array]: ...
    def state(self) -> list[mx.array]: ...
    def trims(self, length: int) -> bool: ...
    def stretched(self, length: int) -> list[mx.array]: ...
    def load(self, arrays: list[mx.array], length: int) -> None: ...


class _Attention:
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

    def _rows(self) -> slice:
        return slice(0, self.cache.offset)

    def state(self) -> list[mx.array]:
        rows = self._rows()
        held = [mx.contiguous(array[..., rows, :]) for array in self.arrays()]
        return held or [mx.zeros((0,))] * self.width

    def trims(self, length: int) -> bool:
        return True

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


class _Window(_Attention):
    """Rows before `start` are gone: a length is reached if the window before it is held."""

    cache: WindowKVCache

    def reaches(self, length: int) -> bool:
        start = self.cache.start
        return start == 0 or length - start >= self.cache.max_size - 1

    def _rows(self) -> slice:
        # The window of the next forward, no more: what a warm start can use.
        end = self.cache.offset - self.cache.start
        return slice(max(0, end - self.cache.max_size + 1), end)

    def trims(self, length: int) -> bool:
        return length < self.cache.max_size

    def _rows_of(self, length: int) -> int:
        return min(length, self.cache.max_size - 1)

    def load(self, arrays: list[mx.array], length: int) -> None:
        super().load(arrays, length)
        self.cache.start = max(0, length - arrays[0].shape[2]) if length else 0


class _Chunk(_Attention):
    """Llama 4's chunks: before a forward the model drops all rows but chunk_size, which here
    includes the slack; the chunk of `length` must be whole."""

    cache: "_ChunkedKVCache"

    def reaches(self, length: int) -> bool:
        return bool(self.cache.start_position <= length - length % self.cache.chunk)

    def _rows(self) -> slice:
        return slice(0, self.cache.offset - self.cache.start_position)

    def trims(self, length: int) -> bool:
        return length <= self.cache.chunk

    def _rows_of(self, length: int) -> int:
        return min(length, self.cache.chunk + length % self.cache.chunk)

    def load(self, arrays: list[mx.array], length: int) -> None:
        super().load(arrays, length)
        self.cache.start_position = max(0, length - arrays[0].shape[2]) if length else 0


class _Recurrent:
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
            if self._capture and _receives(self.cache, args, kwargs):
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

    def state(self) -> list[mx.array]:
        return [mx.zeros((0,)) if a is None else mx.contiguous(a) for a in self.cache.cache]

    def trims(self, length: int) -> bool:
        return False

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


def _receives(cache: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(arg is cache for arg in args) or any(arg is cache for arg in kwargs.values())


class _ChunkedKVCache(ChunkedKVCache):  # type: ignore[misc]
    """Keeps `slack` rows more than the model asks for."""

    def __init__(self, chunk_size: int, slack: int) -> None:
        super().__init__(chunk_size + slack)
        self.chunk = chunk_size


def _ours(cache: Any, kv_bits: int | None, group_size: int, slack: int) -> Any:
    """The model's own cache object, or ours that shows its layer the same."""
    if type(cache) is CacheList:
        return CacheList(*(_ours(c, kv_bits, group_size, slack) for c in cache.caches))
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return WindowKVCache(cache.max_size, slack)
    if type(cache) is ChunkedKVCache:
        return _ChunkedKVCache(cache.chunk_size, slack)
    if type(cache) is KVCache and kv_bits:
        return QuantizedKVCache(group_size=group_size, bits=kv_bits)
    if type(cache) in (KVCache, ArraysCache):
        return cache
    raise UnsupportedError(
        f"this target keeps a {type(cache).__name__}, which cannot be rolled back after a "
        "rejected draft token: use another target"
    )


def _flat(caches: Any) -> list[Any]:
    return [leaf for c in caches for leaf in (_flat(c.caches) if isinstance(c, CacheList) else [c])]


def _leaf(cache: Any, modules: list[Module], forwards: int) -> _Leaf:
    if isinstance(cache, ArraysCache):
        return _Recurrent(cache, modules, forwards)
    if isinstance(cache, WindowKVCache):
        return _Window(cache)
    return _Chunk(cache) if isinstance(cache, _ChunkedKVCache) else _Attention(cache)


def _watch(leaves: list[_Leaf]) -> list[Callable[[], None]]:
    return [
        leaf.watch(module)
        for leaf in leaves
        if isinstance(leaf, _Recurrent)
        for module in leaf.modules
    ]


def _call_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _takes_cache(module: Module) -> bool:
    return "cache" in inspect.signature(type(module).__call__).parameters


def _around(module: Module, found: list[Module]) -> bool:
    inside = {id(m) for m in modules_of(module)}
    return any(id(m) in inside for m in found)


def _owners(model: Module, probe: list[Any], setting: str | None) -> dict[int, list[Module]]:
    """Which modules own the recurrent state of which leaf: the innermost that are handed it.

    Found by building the graph of a two-token forward over `probe`, never evaluated. Raises
    UnsupportedError where `setting` makes that fail, and for a state that no module is handed.
    """
    caches = _flat(probe)
    owners: dict[int, list[Module]] = {
        i: [] for i, c in enumerate(caches) if isinstance(c, ArraysCache)
    }

    def watch(module: Module) -> Callable[[], None]:
        def note(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            for i, found in owners.items():
                # Inner calls end first: a module around an owner is not one itself.
                if _receives(caches[i], args, kwargs) and not _around(module, found):
                    found.append(module)

        return observe(module, note)

    removers = [watch(m) for m in modules_of(model) if owners and _takes_cache(m)]
    try:
        model(mx.array([[0, 0]]), cache=probe)
    except (ValueError, RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
        if not setting:
            raise
        raise UnsupportedError(
            f"{setting} does not work with this target ({error}): leave it unset"
        ) from None
    finally:
        _call_all(removers)
    if missing := [i for i, found in owners.items() if not found]:
        raise UnsupportedError(
            f"this target keeps an {type(caches[missing[0]]).__name__} in a way that cannot be "
            "rolled back after a rejected draft token: use another target"
        )
    return owners
