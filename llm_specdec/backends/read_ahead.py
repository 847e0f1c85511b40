"""The weights' way from the disk, begun while Python still imports what will use them.

Only the operating system is asked to read: it keeps what it read as long as memory is free.
"""

import contextlib
import fcntl
import functools
import os
import struct
import sys
import threading
from pathlib import Path

from llm_specdec import files

_F_RDADVISE = 44  # of macOS' fcntl; a file is asked for in parts, as the count is an int
_PART = 1 << 30  # bytes


@functools.cache  # once a process: afterwards they are in memory
def begin(folder: str) -> None:
    """Returns at once."""
    threading.Thread(target=_read, args=(Path(folder),), daemon=True).start()


def _read(folder: Path) -> None:
    for path in sorted(folder.glob("*.safetensors")):
        with contextlib.suppress(OSError), files.opened(path) as file:
            _advise(file.fileno())


def _advise(descriptor: int) -> None:
    if sys.platform == "darwin":
        size = os.fstat(descriptor).st_size
        for start in range(0, size, _PART):
            wanted = struct.pack("qi4x", start, min(_PART, size - start))
            fcntl.fcntl(descriptor, _F_RDADVISE, wanted)
    else:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
