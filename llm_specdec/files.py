"""Files: those of strangers read within limits, and our own kept private.

Reading: only regular files, and never more than a limit. A link to a regular file is one, as
hubs' caches are made of such links; a named pipe or a device would never end.

Writing: for their owner alone whatever the umask, in one step, and never through a link that
somebody put where a file of ours is to be made.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

LOCK_SECONDS = 10
STALE_SECONDS = 600  # an older temporary file belongs to a process that was killed

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file, to be read. Raises OSError, and for anything else one whose `strerror`
    says what it is."""
    with open(path, "rb", opener=_at_once) as file:
        _check_regular(path, os.fstat(file.fileno()).st_mode)
        yield file


def _at_once(path: str, flags: int) -> int:
    """A descriptor; the writer of a named pipe is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def size_of(path: Path, limit: int) -> int:
    """Bytes of a regular file that has at most `limit`. Raises OSError as `opened` and `read`."""
    status = path.stat()
    _check_regular(path, status.st_mode)
    _check_size(path, status.st_size, limit)
    return status.st_size


def read(path: Path, limit: int) -> bytes:
    """All of a regular file that has at most `limit` bytes. Raises OSError as `opened` does, and
    for a larger file one whose `strerror` has the figures."""
    with opened(path) as file:
        _check_size(path, os.fstat(file.fileno()).st_size, limit)
        return file.read(limit)


def _check_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, and a regular file is needed", str(path))


def _check_size(path: Path, size: int, limit: int) -> None:
    if size > limit:
        said = f"{size / 1e6:,.1f} MB, and at most {limit / 1e6:,.1f} MB are read"
        raise OSError(errno.EFBIG, said, str(path))


def make_folder(path: Path) -> None:
    """Make a folder for its owner alone; those above it as usual. One that is there stays.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        path.chmod(0o700)  # the umask may have taken the owner's own rights


def make_private(path: Path) -> None:
    """Make an empty file for its owner alone, for others to write into; one that is there
    stays. Raises OSError."""
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.close(created(path))


def created(path: Path) -> int:
    """A descriptor of a new file for its owner alone. Raises FileExistsError for whatever is
    there, links too."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


@contextlib.contextmanager
def locked(path: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock beside `path` (its folder is made).

    Raises: TimeoutError where another process keeps it for so many seconds, OSError.
    """
    lock = path.with_name(path.name + ".lock")
    make_private(lock)
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        _check_regular(lock, os.fstat(descriptor).st_mode)
        if not _acquired(descriptor, seconds):
            raise TimeoutError(f"{path} is in use by another process: try again")
        yield
    finally:
        os.close(descriptor)  # which lets go of the lock


def _acquired(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, whole, and a
    power cut leaves one of them. The mode of the old file stays; a new one is 0600.

    Raises OSError, leaving the old file.
    """
    _sweep(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = created(temporary)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            os.fchmod(descriptor, _mode_of(path))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _mode_of(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat().st_mode
        if stat.S_ISREG(found):
            return stat.S_IMODE(found)
    return 0o600


def sync_folder(path: Path) -> None:
    """See to it that names in the folder outlast a power cut, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove what processes that were killed in `replace` left beside `path`."""
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+")  # digits: 0.1.0's
    for other in path.parent.iterdir():
        if not left.fullmatch(other.name):
            continue
        with contextlib.suppress(OSError):
            status = other.lstat()
            if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > STALE_SECONDS:
                other.unlink()
