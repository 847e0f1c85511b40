"""A terminal of a test's own: what a command shows on it, and how it looks in the end."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence


def on_terminal(command: Sequence[str]) -> tuple[int, str]:
    """Run a Python command line with stderr on a terminal; its exit code and all it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=theirs, stdin=theirs
    )
    os.close(theirs)
    said = b""
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    return process.wait(), said.decode()


def left_on_screen(said: str) -> list[str]:
    """The lines that stay, erased ones left out."""
    lines = re.sub(r"[^\n]*\r\x1b\[K", "", said.replace("\r\n", "\n")).splitlines()
    return [line for line in lines if line]
