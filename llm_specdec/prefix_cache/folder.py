"""The prefix cache's folder: what is in it, how much there may be, and what goes first.

    ROOT/PAIRING/KEY/ENTRY.safetensors     an entry; KEY is 32 hex digits
    ROOT/PAIRING/KEY/.ENTRY.new            being written, or left behind by a killed process

ROOT may be a link; a link below it is followed by nobody.

Folders are 0700 and files 0600: they hold what was said. Nothing is written or evicted without
the lock, so that several processes together stay within the cap, and a half-written file that
is seen under the lock belongs to nobody. Readers take no lock: a file that is evicted while it
is read stays readable. Everything else in the folder is counted and never touched.
"""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from llm_specdec import files
from llm_specdec.console.sizes import gigabytes

# Positions, whether they can be cut, then 16 bits of hash for each of some prefixes.
ENTRY = re.compile(r"[0-9]{1,9}[tx]-([0-9a-f]{4}){1,20}\.safetensors")
KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Cap:
    """Bytes, and the rule that sets them; `own`: a limit that the user set. 0 is off."""

    nbytes: int
    why: str
    own: bool = False

    def __str__(self) -> str:
        if self.nbytes == 0:
            return f"off ({self.why})"
        return f"at most {gigabytes(self.nbytes)} ({self.why})"


class NoRoom(Exception):
    """An entry is larger than what the cap leaves for entries."""

    def __init__(self, size: int, cap: Cap) -> None:
        many = f"{gigabytes(size)} are more than the prefix cache on disk may hold, {cap}"
        off = f"nothing is kept on disk, the prefix cache there is {cap}"
        super().__init__(many if cap.nbytes else off)
        self.cap = cap


@dataclass(frozen=True)
class EntryFile:
    """An entry's file. used: when it was last written or hit, in seconds since the epoch."""

    path: Path
    size: int
    used: float

    @property
    def pairing(self) -> str:
        return self.path.parent.parent.name


@dataclass
class Contents:
    """All that is in the folder; `foreign` are the sizes of files that are not ours."""

    entries: list[EntryFile] = field(default_factory=list)
    leftovers: list[EntryFile] = field(default_factory=list)
    foreign: list[int] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        ours = sum(file.size for file in (*self.entries, *self.leftovers))
        return ours + sum(self.foreign)


@dataclass(frozen=True)
class Folder:
    """The folder at `root`, which need not exist yet.

    cap(taken, free): what all files in it may take together, given the bytes that they take now
    and those that are free on its disk. pairings: names in use; entries of others go first.
    """

    root: Path
    cap: Callable[[int, int], Cap]
    pairings: Collection[str] = ()

    def contents(self, onerror: Callable[[OSError], None] | None = None) -> Contents:
        """What is there. onerror: told of folders that cannot be read; they count as empty."""
        contents = Contents()
        for folder, inner, names in os.walk(self.root, onerror=onerror):
            links = [name for name in inner if Path(folder, name).is_symlink()]
            for name in (*names, *links):
                with contextlib.suppress(OSError):  # gone meanwhile
                    self._sort(Path(folder, name), contents)
        return contents

    def _sort(self, path: Path, contents: Contents) -> None:
        status = path.lstat()
        file = EntryFile(path, status.st_size, status.st_mtime)
        at_home = path.parent.parent.parent == self.root and KEY.fullmatch(path.parent.name)
        if at_home and ENTRY.fullmatch(path.name):
            contents.entries.append(file)
        elif at_home and ENTRY.fullmatch(path.name.removeprefix(".").removesuffix(".new")):
            contents.leftovers.append(file)
        else:
            contents.foreign.append(file.size)

    def keep(
        self,
        path: Path,
        size: int,
        write: Callable[[BinaryIO], None],
        instead_of: Collection[Path] = (),
    ) -> None:
        """Have `write` fill the entry at `path`, of at most `size` bytes. Entries that it stands
        `instead_of` are removed.

        Raises: NoRoom, TimeoutError where another process holds the lock, OSError (disk full,
        read only, …); then nothing is left behind.
        """
        files.make_folder(self.root.parent)
        files.make_folder(self.root)  # or a link to another disk
        with files.locked(self.root):
            self._make_room(size, instead_of)
            for folder in (path.parent.parent, path.parent):
                _make_folder(folder)
            _write(path, write)
            for old in instead_of:
                old.unlink(missing_ok=True)

    def trim(self) -> None:
        """Evict what the cap does not allow any more. Raises TimeoutError, OSError."""
        if self.root.is_dir():
            with files.locked(self.root):
                self._make_room(0)

    def clear(self, pairing: str | None = None) -> list[EntryFile]:
        """Remove the entries of one pairing, or all; returns them. Raises TimeoutError,
        OSError; then some may be left."""
        if not self.root.is_dir():
            return []
        with files.locked(self.root):
            contents = self.contents(_raise)
            gone = [file for file in contents.entries if pairing in (None, file.pairing)]
            for file in (*gone, *contents.leftovers):
                _remove(file.path)
        return gone

    def rename(self, old: str, new: str) -> None:
        """Give the entries of one pairing to another, which has none. Raises TimeoutError,
        OSError."""
        if (self.root / old).is_dir():
            with files.locked(self.root):
                (self.root / old).rename(self.root / new)

    def free(self) -> int:
        """Bytes that this user may still write to the disk."""
        folder = self.root
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def _make_room(self, size: int, first: Collection[Path] = ()) -> None:
        """Evict until `size` more bytes fit under the cap. Raises NoRoom where they cannot."""
        contents = self.contents()
        for file in contents.leftovers:
            _remove(file.path)
        taken = contents.nbytes - sum(file.size for file in contents.leftovers)
        cap = self.cap(taken, self.free())
        fits = size <= cap.nbytes - sum(contents.foreign)
        too_many = taken + (size if fits else 0) - cap.nbytes
        for file in self._in_order(contents.entries, first):
            if too_many <= 0:
                break
            _remove(file.path)
            too_many -= file.size
        if size and not fits:
            raise NoRoom(size, cap)

    def _in_order(self, entries: list[EntryFile], first: Collection[Path]) -> Iterator[EntryFile]:
        """What goes first: `first`, entries of pairings that are gone, entries of another key
        than the pairing's latest (its weights, versions or settings changed); then the least
        recently used."""
        latest: dict[str, EntryFile] = {}
        for file in sorted(entries, key=lambda file: file.used):
            latest[file.pairing] = file

        def rank(file: EntryFile) -> tuple[bool, bool, bool, float]:
            current = latest[file.pairing].path.parent == file.path.parent
            return (file.path not in first, file.pairing in self.pairings, current, file.used)

        yield from sorted(entries, key=rank)


def _make_folder(folder: Path) -> None:
    files.make_folder(folder)
    if folder.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder.name} in it is a link", str(folder))


def _raise(error: OSError) -> None:
    raise error


def _write(path: Path, write: Callable[[BinaryIO], None]) -> None:
    new = path.with_name(f".{path.name}.new")
    try:
        descriptor = files.created(new)
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            write(file)
            file.flush()
            os.fsync(descriptor)
        new.replace(path)
    except BaseException:
        _remove(new)
        raise


def _remove(path: Path) -> None:
    """Take the file away, and the folders of its key and pairing once they are empty."""
    path.unlink(missing_ok=True)
    for folder in (path.parent, path.parent.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()
