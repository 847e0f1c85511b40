"""Where workers are found: a folder for their owner alone, with a socket, lock and log each."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llm_specdec import files
from llm_specdec.errors import ResourceError

LONGEST = 103  # bytes of a socket's path; macOS takes no more, Linux four
_SUFFIX = ".sock"


@dataclass(frozen=True)
class Place:
    """What belongs to the worker of one target."""

    socket: Path

    @property
    def start(self) -> Path:
        """Locked while a worker is looked for and started."""
        return self.socket.with_suffix(".start")

    @property
    def log(self) -> Path:
        """What the process says on stderr: no prompt, no answer."""
        return self.socket.with_suffix(".log")


def place_of(target: str) -> Place:
    """Of the worker for the target in this folder. Raises ResourceError."""
    return Place(folder() / f"{_digest(target)}{_SUFFIX}")


def all_places() -> Iterator[Place]:
    """Of all workers that there may be. Raises ResourceError."""
    for path in sorted(folder().glob(f"*{_SUFFIX}")):
        yield Place(path)


def folder() -> Path:
    """The folder of all sockets, made where it is missing: below llm's own folder, or, where
    that path is too long for a socket, a private one among the temporary files.

    Raises ResourceError where it is not ours alone.
    """
    user = user_folder()
    found = user / "specdec" / "workers"
    if len(os.fsencode(found / f"{_digest('')}{_SUFFIX}")) > LONGEST:
        found = Path(tempfile.gettempdir(), f"llm-specdec-{os.getuid()}-{_digest(str(user))[:8]}")
    try:
        files.make_folder(found)
        status = found.lstat()
    except OSError as error:
        raise ResourceError(f"no folder for workers: {error}") from error
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or stat.S_IMODE(status.st_mode) & 0o077
    ):
        raise ResourceError(f"{found} must be yours alone: chmod 700 it, or remove it")
    return found


def user_folder() -> Path:
    """llm's own folder, as it is called from any working directory."""
    import llm

    return Path(llm.user_dir()).absolute()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
