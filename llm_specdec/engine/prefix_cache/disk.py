"""The disk tier: entries as safetensors files, for the processes to come.

A file holds the states, the token ids, the key's parts and a seal over all of them. Whatever
does not match its own seal, its own name or the key it lies under is removed and not there: a
flipped bit costs a cold start, never a wrong token. CRC-32 is the seal's base because the time
to check it counts as time to first token: 2.1 GB/s in zlib against 0.5 GB/s of BLAKE2b or
SHA-256 on the same machine, where the file itself is read at 4.6 GB/s.
"""

import contextlib
import hashlib
import itertools
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import mlx.core as mx
import numpy as np

from llm_specdec.engine.prefix_cache import names
from llm_specdec.engine.prefix_cache.entry import Entry, Found, Key, usable
from llm_specdec.prefix_store import NoRoom, Store

FORMAT = "1"  # of the files
TRIES = 4  # files that a lookup opens at most
HEADER, HEADER_PER_ARRAY = 4096, 160  # bytes that a file has at most beside its arrays
HEADER_LIMIT = 2**24  # bytes; thousands of arrays
# What reading a file can raise that is not what was written.
DAMAGED = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, OverflowError,
           OSError, struct.error)  # fmt: skip


@dataclass(frozen=True)
class _File:
    """An open file of which the header and the tokens were read."""

    path: Path
    file: BinaryIO
    tokens: tuple[int, ...]
    exact: bool

    def entry(self) -> Entry | None:
        """The entry, in memory; None where the file is not what was written."""
        self.file.seek(0)
        try:
            loaded: Any = mx.load(self.file, format="safetensors", return_metadata=True)
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
        return Entry(self.tokens, target, drafter, self.exact)


class DiskTier:
    """`Tier` over the entries that `store` has for `pairing`.

    warn: told in words, but only once, why entries cannot be kept.
    """

    def __init__(self, store: Store, pairing: str, warn: Callable[[str], None]) -> None:
        self.store, self.pairing, self._warn = store, pairing, warn
        self._gave_up = self._told = False

    def longest(self, key: Key, prompt: Sequence[int], beyond: int = 0) -> Found | None:
        """See `Tier`. Opens at most TRIES files, those whose names promise most."""
        with contextlib.ExitStack() as stack:
            opened = itertools.islice(self._opened(key, prompt, stack), TRIES)
            by_use = [(usable(file.tokens, file.exact, prompt), file) for file in opened]
            for length, file in sorted(by_use, key=lambda pair: pair[0], reverse=True):
                if length <= beyond:
                    break
                if entry := file.entry():
                    _touch(file.path)
                    return Found(entry, length)
                _remove(file.path)
        return None

    def put(self, key: Key, entry: Entry) -> None:
        """See `Tier`. Entries that this one covers are replaced by it."""
        path = self._folder(key) / names.name_of(entry.tokens, entry.exact)
        if self._gave_up or _touch(path):
            return
        arrays, metadata = _contents(key, entry)
        size = sum(array.nbytes for array in arrays.values())
        size += HEADER + HEADER_PER_ARRAY * len(arrays) + len(metadata["key"])

        def write(file: BinaryIO) -> None:
            mx.save_safetensors(file, arrays, metadata)

        try:
            self.store.keep(path, size, write, self._covered(key, entry))
        except TimeoutError:  # another process is writing: its entry is as good as ours
            pass
        except NoRoom as error:
            if not error.cap.own:
                self._tell(f"{error}; see llm specdec cache status")
        except (OSError, RuntimeError) as error:
            self._gave_up = True
            why = getattr(error, "strerror", None) or error
            self._tell(f"the prefix cache in {self.store.root} cannot be written: {why}")

    def _tell(self, text: str) -> None:
        if not self._told:
            self._warn(text)
        self._told = True

    def _folder(self, key: Key) -> Path:
        return self.store.root / self.pairing / key.digest[:32]

    def _opened(
        self, key: Key, prompt: Sequence[int], stack: contextlib.ExitStack
    ) -> Iterator[_File]:
        """Files that the prompt may begin with, most promising first."""
        folder, mark = self._folder(key), names.marks_of(prompt)
        promised = [(names.agreed(file, mark, len(prompt)), file) for file in _listed(folder)]
        for agreed, file in sorted(promised, reverse=True):
            if not agreed:
                return
            if opened := _open(folder / file, key, stack):
                yield opened

    def _covered(self, key: Key, entry: Entry) -> list[Path]:
        """Entries of which this one can serve nearly all."""
        if entry.exact:
            return []
        folder, mark = self._folder(key), names.marks_of(entry.tokens)
        length = len(entry.tokens)
        return [folder / file for file in _listed(folder) if names.covered(file, mark, length)]


def _listed(folder: Path) -> list[str]:
    """File names; os.listdir makes no object of each, and a lookup's time is waited for."""
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _contents(key: Key, entry: Entry) -> tuple[dict[str, mx.array], dict[str, str]]:
    arrays = {
        "tokens": mx.array(entry.tokens, dtype=mx.int32),
        **{f"target.{i}": array for i, array in enumerate(entry.target)},
        **{f"drafter.{i}": array for i, array in enumerate(entry.drafter)},
    }
    metadata = {
        "format": FORMAT,
        "key": json.dumps(dict(key.parts), sort_keys=True),
        "exact": json.dumps(entry.exact),
    }
    return arrays, metadata | {"seal": _seal(arrays, metadata)}


def _seal(arrays: Mapping[str, mx.array], metadata: Mapping[str, str]) -> str:
    """A digest of every array's name, type, shape and bytes, and of the metadata."""
    said: list[Any] = [
        [name, str(array.dtype), array.shape, zlib.crc32(_bytes(array))]
        for name, array in sorted(arrays.items())
    ]
    said.append({name: text for name, text in metadata.items() if name != "seal"})
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _bytes(array: mx.array) -> Any:
    """The bytes of an evaluated array, not copied."""
    return np.array(array.reshape(-1).view(mx.uint8), copy=False).data


def _open(path: Path, key: Key, stack: contextlib.ExitStack) -> _File | None:
    """The file, kept open by `stack`; None where it is gone, or was none of ours and is now."""
    try:
        file = stack.enter_context(path.open("rb"))
    except OSError:
        return None
    try:
        metadata, tokens = read_head(file)
        exact = metadata["exact"] == "true"
        ours = (
            metadata["format"] == FORMAT
            and json.loads(metadata["key"]) == dict(key.parts)
            and names.name_of(tokens, exact) == path.name
        )
    except DAMAGED:
        ours = False
    if not ours:
        _remove(path)
        return None
    return _File(path, file, tokens, exact)


def read_head(file: BinaryIO) -> tuple[dict[str, str], tuple[int, ...]]:
    """Metadata and tokens of an entry's file: mx.load would read all of it. Raises one of
    DAMAGED.

    Format: https://github.com/huggingface/safetensors
    """
    (size,) = struct.unpack("<Q", file.read(8))
    if size > HEADER_LIMIT:
        raise ValueError("no header is that long")
    header = json.loads(file.read(size))
    metadata = header.pop("__metadata__")
    length = 8 + size + max(array["data_offsets"][1] for array in header.values())
    if os.fstat(file.fileno()).st_size != length:
        raise ValueError("cut short or gone on")
    start, stop = header["tokens"]["data_offsets"]
    file.seek(start, os.SEEK_CUR)
    tokens = np.frombuffer(file.read(stop - start), dtype="<i4")
    return metadata, tuple(tokens.tolist())


def _touch(path: Path) -> bool:
    """Say that the entry was used just now; False where there is none."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
