"""Files that others may read or write at the same time: locked, and replaced in one step."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

LOCK_SECONDS = 10


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock beside `path` (its folder is made).

    Raises: TimeoutError where another process keeps it for LOCK_SECONDS, OSError.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(path.name + ".lock"), timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise TimeoutError(f"{path} is in use by another process: try again") from None
    try:
        yield
    finally:
        lock.release()


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, whole.

    The mode of the old file stays; a new one is 0600. Raises OSError, leaving the old file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
