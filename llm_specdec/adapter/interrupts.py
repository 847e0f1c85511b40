"""Ctrl-C and a closed pipe while an answer streams, whenever they come.

llm logs nothing when KeyboardInterrupt reaches it. So for as long as an answer streams, the
first Ctrl-C only asks for its end: the partial answer is kept and logged. Where there is
nothing to keep yet, and the second time, it is the KeyboardInterrupt that it always is.

A reader that went away (`llm … | head`) would make llm print `Error: [Errno 32] Broken pipe`.
While llm's command line prints a piece, it ends the process instead, quietly, as it ends any
other program in a pipeline; llm logs nothing in either case.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from llm_specdec.adapter.model_thread import Job, Reading
from llm_specdec.adapter.options import llm_command


def interruptible(reading: Reading) -> Iterator[Any]:
    """The items of a job, which ends with the first SIGINT.

    Only where Python's own handler is in place, on the main thread; elsewhere nothing changes.
    """
    ours = _ours_to_take()
    if ours:
        signal.signal(signal.SIGINT, _cancelling(reading.job))
    try:
        for item in reading.items():
            with _closed_pipe_ends_quietly(ours):
                yield item
    finally:
        reading.job.cancel()
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _cancelling(job: Job) -> Any:
    def handler(signum: int, frame: FrameType | None) -> None:
        if job.cancelled or not job.keeps:
            raise KeyboardInterrupt
        job.cancel()

    return handler


@contextlib.contextmanager
def _closed_pipe_ends_quietly(ours: bool) -> Iterator[None]:
    if not ours or llm_command() is None:
        yield  # a library user's own pipes are theirs
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _ours_to_take() -> bool:
    on_main = threading.current_thread() is threading.main_thread()
    return on_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
