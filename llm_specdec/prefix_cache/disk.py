"""The disk tier: entries as safetensors files, for the processes to come.

A file holds the states, the token ids, the key's parts and a seal over all of them. A file that
does not match its own seal, its name or the key it lies under is removed and counts as absent: a
flipped bit costs a cold start, never a wrong token.
"""

import contextlib
import itertools
import json
import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from llm_specdec import files
from llm_specdec.engine import states
from llm_specdec.engine.states import DAMAGED, Entry, Found
from llm_specdec.prefix_cache import names
from llm_specdec.prefix_cache.folder import Folder, NoRoom
from llm_specdec.prefix_cache.keys import Key
from llm_specdec.prefix_cache.matching import usable

FORMAT = "1"  # of the files
TRIES = 4  # files that a lookup opens at most
HEADER, HEADER_PER_ARRAY = 4096, 160  # bytes that a file has at most beside its arrays
HEADER_LIMIT = 2**24  # bytes; thousands of arrays


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
        return states.read(self.file)


class DiskTier:
    """`Tier` over the entries that `folder` has for `pairing`.

    warn: called once, with the reason in words, where entries cannot be kept.
    """

    def __init__(self, folder: Folder, pairing: str, warn: Callable[[str], None]) -> None:
        self.folder, self.pairing, self._warn = folder, pairing, warn
        self._gave_up = self._warned = False

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
        path = self._place(key) / names.name_of(entry.tokens, entry.exact)
        if self._gave_up or _touch(path):
            return
        about = {"format": FORMAT, "key": json.dumps(dict(key.parts), sort_keys=True)}
        arrays = 1 + len(entry.target) + len(entry.drafter)
        header = HEADER + HEADER_PER_ARRAY * arrays + len(about["key"])
        size = header + 4 * len(entry.tokens) + entry.nbytes
        try:
            self.folder.keep(path, size, states.writer(entry, about), self._covered(key, entry))
        except TimeoutError:  # another process is writing: its entry is as good as ours
            pass
        except NoRoom as error:
            if not error.cap.own:
                self._warn_once(f"{error}; see llm specdec cache status")
        except (OSError, RuntimeError) as error:
            self._gave_up = True
            why = getattr(error, "strerror", None) or error
            self._warn_once(f"the prefix cache in {self.folder.root} cannot be written: {why}")

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warn(text)
        self._warned = True

    def _place(self, key: Key) -> Path:
        return self.folder.root / self.pairing / key.digest[:32]

    def _opened(
        self, key: Key, prompt: Sequence[int], stack: contextlib.ExitStack
    ) -> Iterator[_File]:
        """Files that the prompt may begin with, most promising first."""
        place, mark = self._place(key), names.marks_of(prompt)
        promised = [(names.agreed(file, mark, len(prompt)), file) for file in _listed(place)]
        for agreed, file in sorted(promised, reverse=True):
            if not agreed:
                return
            if opened := _open(place / file, key, stack):
                yield opened

    def _covered(self, key: Key, entry: Entry) -> list[Path]:
        """Entries of which this one can serve nearly all."""
        if entry.exact:
            return []
        place, mark = self._place(key), names.marks_of(entry.tokens)
        length = len(entry.tokens)
        return [place / file for file in _listed(place) if names.covered(file, mark, length)]


def _listed(place: Path) -> list[str]:
    """File names. os.listdir, because it is fast and the user waits for a lookup."""
    try:
        if place.is_symlink() or place.parent.is_symlink():
            return []
        return os.listdir(place)  # noqa: PTH208
    except OSError:
        return []


def _open(path: Path, key: Key, stack: contextlib.ExitStack) -> _File | None:
    """The file, kept open by `stack`; None where it is gone, or is no entry of this key and is
    removed."""
    try:
        file = stack.enter_context(files.opened(path))
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
        raise ValueError("the file is cut short or goes on after its arrays")
    start, stop = header["tokens"]["data_offsets"]
    file.seek(start, os.SEEK_CUR)
    tokens = np.frombuffer(file.read(stop - start), dtype="<i4")
    return metadata, tuple(tokens.tolist())


def _touch(path: Path) -> bool:
    """Say that the entry was used just now; False where there is none."""
    try:
        os.utime(path, follow_symlinks=False)
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
