"""What a command is doing, on the last line of a terminal: seconds tick, and it is gone at the end.

Nothing is shown where stderr is no terminal, nor for what is over at once.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llm_specdec.console.text import echo, overwrite

AFTER = 0.5  # seconds: what takes less needs no word


class _Line:
    """The line: the text of the innermost of the blocks that are open, and its seconds."""

    def __init__(self) -> None:
        self._open: list[tuple[str, float]] = []  # text, since when
        self._lock = threading.Lock()
        self._drawn = False
        self._ticking = False

    def push(self, text: str) -> None:
        with self._lock:
            self._open.append((text, time.monotonic()))
            if not self._ticking:
                self._ticking = True
                threading.Thread(target=self._tick, name="progress", daemon=True).start()

    def change(self, text: str) -> None:
        with self._lock:
            self._open[-1] = text, time.monotonic()

    def pop(self) -> None:
        with self._lock:
            self._open.pop()
            self._erase()

    def erase(self) -> None:
        """Make room for a line of another kind; the next tick draws this one again below it."""
        with self._lock:
            self._erase()

    def _tick(self) -> None:
        while True:
            time.sleep(AFTER)
            with self._lock:
                if not self._open:
                    self._ticking = False
                    return
                self._draw(*self._open[-1])

    def _draw(self, text: str, since: float) -> None:
        seconds = time.monotonic() - since
        if seconds >= AFTER:
            shown = f"{text} … {seconds:.0f} s" if seconds >= 2 else f"{text} …"
            overwrite(shown, shutil.get_terminal_size().columns - 1)
            self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            overwrite("")
            self._drawn = False


_line = _Line()


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` while the block runs; what it yields changes the text."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    _line.push(text)
    try:
        yield _line.change
    finally:
        _line.pop()


def say(text: str) -> None:
    """A line on stderr that stays, above whatever is in progress."""
    _line.erase()
    echo(text, err=True)
