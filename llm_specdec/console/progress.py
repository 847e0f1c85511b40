"""What a command is doing, on the last line of a terminal: seconds tick, and it is gone at the end.

Nothing is shown where stderr is no terminal, nor for what is over at once.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from llm_specdec.console.text import echo, overwrite

AFTER = 0.5  # seconds: what takes less needs no word


@dataclass(eq=False)
class _Block:
    text: str
    since: float = field(default_factory=time.monotonic)

    def change(self, text: str) -> None:
        self.text, self.since = text, time.monotonic()


class _Line:
    """The line: the text of the innermost of the blocks that are open, and its seconds."""

    def __init__(self) -> None:
        self._open: list[_Block] = []
        self._lock = threading.Lock()
        self._drawn = False
        self._ticking = False

    def open(self, block: _Block) -> None:
        with self._lock:
            self._open.append(block)
            if not self._ticking:
                self._ticking = True
                threading.Thread(target=self._tick, name="progress", daemon=True).start()

    def close(self, block: _Block) -> None:
        with self._lock:
            self._open.remove(block)
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
                self._draw(self._open[-1].text, self._open[-1].since)

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
    block = _Block(text)
    _line.open(block)
    try:
        yield block.change
    finally:
        _line.close(block)


def say(text: str) -> None:
    """A line on stderr that stays, above whatever is in progress."""
    _line.erase()
    echo(text, err=True)
