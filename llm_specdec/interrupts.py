"""Ctrl-C while an answer streams, whenever it comes.

llm logs nothing when KeyboardInterrupt reaches it. Inside the answering generator it can be
caught and the partial answer kept; between two pieces of text, while llm prints, it would be
lost. So for as long as an answer streams, an interrupt that comes outside the generator waits
until the generator goes on and is raised there.
"""

import signal
import threading
from collections.abc import Generator, Iterator
from types import FrameType

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
    yield chunk
    handler.outside = False


def _ours_to_take() -> bool:
    on_main = threading.current_thread() is threading.main_thread()
    return on_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
