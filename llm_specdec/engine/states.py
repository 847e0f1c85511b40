"""States of target and drafter that outlive a run: an entry of the prefix cache, and its file.

One convention for target and drafter. After committed tokens c[0..n] (n + 1 of them) the
target's state covers the first n, and the drafter knows all n + 1: its state at position
n - 1 may depend on the token that follows. So an entry's `tokens` are c[0..n], and a
prompt can use as many positions as it has tokens in common with them, less one. The last token
of a prompt is therefore always read again, which gives the logits of the first token.

A file is sealed by a digest over all of it. CRC-32 is its base because the time to check it is
part of the time to the first token: 2.1 GB/s in zlib against 0.5 GB/s of BLAKE2b or SHA-256 on
the same machine, where the file itself is read at 4.6 GB/s.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import mlx.core as mx
import numpy as np

# What reading a file can raise that is not what was written.
DAMAGED = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, OverflowError,
           OSError, struct.error)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """tokens: c[0..n], see above. target, drafter: their `state()`, exact lengths, evaluated;
    nobody writes into these arrays. exact: the state serves n positions or none (recurrent
    layers, windows that have moved on); otherwise it can be cut to any shorter length."""

    tokens: tuple[int, ...]
    target: list[mx.array]
    drafter: list[mx.array]
    exact: bool

    @property
    def length(self) -> int:
        """Positions covered."""
        return len(self.tokens) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the states."""
        return sum(array.nbytes for array in (*self.target, *self.drafter))


@dataclass(frozen=True)
class Found:
    """An entry and how many of its positions the prompt can use (at least one). The entry may
    be cut to just these."""

    entry: Entry
    length: int


class Prefixes(Protocol):
    """Where a run looks for states of its prompt."""

    @property
    def least(self) -> int:
        """Positions that an entry must have to be worth keeping."""
        ...

    def longest(self, prompt: Sequence[int]) -> Found | None:
        """The entry with the most positions that the prompt can use, its arrays evaluated."""
        ...


def writer(entry: Entry, about: Mapping[str, str]) -> Callable[[BinaryIO], None]:
    """A function that writes the entry as safetensors, with texts `about` it. The seal is worked
    out here, so that writing, which others may wait for, is no more than that."""
    arrays = {
        "tokens": mx.array(entry.tokens, dtype=mx.int32),
        **{f"target.{i}": array for i, array in enumerate(entry.target)},
        **{f"drafter.{i}": array for i, array in enumerate(entry.drafter)},
    }
    metadata = {**about, "exact": json.dumps(entry.exact)}
    metadata["seal"] = _seal(arrays, metadata)
    return lambda file: mx.save_safetensors(file, arrays, metadata)


def read(file: BinaryIO) -> Entry | None:
    """The entry that `writer` wrote, in memory; None where the file is not what was written."""
    try:
        loaded: Any = mx.load(file, format="safetensors", return_metadata=True)
    except DAMAGED:
        return None
    arrays, metadata = loaded
    mx.eval(arrays)
    if metadata.get("seal") != _seal(arrays, metadata):
        return None
    target, drafter = (
        [arrays[f"{whose}.{i}"] for i in range(sum(n.startswith(whose) for n in arrays))]
        for whose in ("target", "drafter")
    )
    return Entry(tuple(arrays["tokens"].tolist()), target, drafter, metadata["exact"] == "true")


def _seal(arrays: Mapping[str, mx.array], metadata: Mapping[str, str]) -> str:
    """A digest of every array's name, type, shape and bytes, and of the metadata."""
    sealed: list[Any] = [
        [name, str(array.dtype), array.shape, zlib.crc32(_bytes(array))]
        for name, array in sorted(arrays.items())
    ]
    sealed.append({name: text for name, text in metadata.items() if name != "seal"})
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def _bytes(array: mx.array) -> Any:
    """The bytes of an evaluated array, not copied."""
    return np.array(array.reshape(-1).view(mx.uint8), copy=False).data
