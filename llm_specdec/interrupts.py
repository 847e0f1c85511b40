"""Ctrl-C and a closed pipe while an answer streams, whenever they come.

llm logs nothing when KeyboardInterrupt reaches it. Inside the answering generator it can be
caught and the partial answer kept; between two pieces of text, while llm prints, it would be
lost. So for as long as an answer streams, an interrupt that comes outside the generator waits
until the generator goes on and is raised there.

A reader that went away (`llm … | head`) would make llm print `Error: [Errno 32] Broken pipe`.
While llm's command line prints a piece, it ends the process instead, quietly, as it ends any
other program in a pipeline; llm logs nothing in either case.
"""

import contextlib
import signal
import threading
from collections.abc import Generator, Iterator
from types import FrameType

import click

Chunks = Generator[str, None, None]


class _Handler:
    def __init__(self) -> None:
        self.outside = False
        self.pending = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if not self.outside or self.pending:  # the second Ctrl-C is not held back
            raise KeyboardInterrupt
        self.pending = True


def interruptible(chunks: Chunks) -> Iterator[str]:
    """Pass `chunks` on; every SIGINT is raised inside it as KeyboardInterrupt.

    Only where Python's own handler is in place, on the main thread; elsewhere nothing changes.
    """
    handler = _Handler()
    if not _ours_to_take():
        yield from chunks
        return
    signal.signal(signal.SIGINT, handler)
    try:
        for chunk in chunks:
            yield from _lent(chunk, handler)
            while handler.pending:
                handler.pending = False
                yield from _lent(chunks.throw(KeyboardInterrupt), handler)
    except StopIteration:  # `chunks` had nothing to add after the interrupt
        return
    finally:
        chunks.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _lent(chunk: str, handler: _Handler) -> Iterator[str]:
    handler.outside = True
    with _closed_pipe_ends_quietly():
        yield chunk
    handler.outside = False


@contextlib.contextmanager
def _closed_pipe_ends_quietly() -> Iterator[None]:
    if click.get_current_context(silent=True) is None:  # a library user's own pipes are theirs
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _ours_to_take() -> bool:
    on_main = threading.current_thread() is threading.main_thread()
    return on_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
