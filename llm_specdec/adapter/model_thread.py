"""The one thread that runs models, and the jobs it does one after another.

MLX keeps its streams per thread: an array that one thread left unevaluated cannot be used on
another. So all prompts of a process are answered here, whichever thread or event loop asks.
A job runs to its end whether or not its reader keeps up, so that a reader who stops reading,
or who asks a second question first, blocks nobody.
"""

import atexit
import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from llm_specdec.errors import ResourceError

# Seconds that the end of a process waits: for a round under way, and for what is left to do
# after an answer, such as writing its states to disk.
LAST_ROUND, LAST_WORK = 0.5, 30.0

Work = Callable[["Job"], Generator[Any, None, None]]


@dataclass(frozen=True)
class Done:
    """The last item of every job; error: what ended it, if not its own end."""

    error: BaseException | None = None


@dataclass
class Job:
    """`work(job)` yields items, which reach the reader through `put`, a `Done` after them.

    work must look at `cancelled` at least once a round, and set `keeps` once there is
    something to keep if it is cancelled. What it leaves in `afterwards` is done once the reader
    has all items, before the next job; the end of the process waits for it.
    """

    work: Work
    put: Callable[[Any], None]
    keeps: bool = False
    afterwards: Callable[[], None] = lambda: None
    finished: bool = False  # the reader has all items, or is given the last
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """What comes after the last item goes on."""
        if not self.finished:
            self._cancelled.set()

    def run(self) -> None:
        error: BaseException | None = None
        try:
            if not self.cancelled:
                with contextlib.closing(self.work(self)) as items:
                    for item in items:
                        self.put(item)
        except BaseException as raised:  # it belongs to the reader
            error = raised
        self.finished = True
        with contextlib.suppress(RuntimeError):  # the reader's event loop is closed
            self.put(Done(error))
        with contextlib.suppress(Exception):  # nobody is there to be told
            self.afterwards()


class Worker:
    """The thread with its queue; one a process, see `submit`."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._current: Job | None = None
        self._ending = False
        threading.Thread(target=self._serve, name="specdec", daemon=True).start()
        atexit.register(self._end)

    def add(self, job: Job) -> None:
        self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            self._current = self._jobs.get()
            if self._ending:
                self._current.cancel()
            self._current.run()
            self._current = None  # an idle thread keeps no answer alive

    def _end(self) -> None:
        """Wait until the thread is idle: inside MLX, while Python takes itself apart, it would
        crash the process. A job that does not end in time, or a signal, ends the process here.
        """
        if self.process != os.getpid():  # a fork has no such thread
            return
        with contextlib.suppress(ValueError):  # not on the main thread
            signal.signal(signal.SIGINT, _leave)
        self._ending = True
        job = self._current
        if job:
            job.cancel()
        idle = threading.Event()
        self.add(Job(_nothing, lambda item: idle.set()))
        if not idle.wait(LAST_WORK if job is None or job.finished else LAST_ROUND):
            _leave(signal.SIGINT, None)
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(signum: int, frame: FrameType | None) -> None:
    """End the process at once, with what was printed: no Python code runs after this."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(128 + signum)


def _nothing(job: Job) -> Generator[Any, None, None]:
    yield from ()


_worker: Worker | None = None
_starting = threading.Lock()


def submit(work: Work, put: Callable[[Any], None], alone: bool = True) -> Job:
    """Queue a job on the process's worker, which is started on first use. alone: only one such
    job may run at a time; others, which wait for a server, have a thread each.

    Raises ResourceError in a fork of a process that has run a model.
    """
    global _worker
    if not alone:
        job = Job(work, put)
        threading.Thread(target=job.run, name="specdec-served", daemon=True).start()
        return job
    with _starting:
        if _worker is None:
            _worker = Worker()
    if _worker.process != os.getpid():
        raise ResourceError(
            "a model ran in this process before it was forked, and its threads did not come "
            "along: start processes with multiprocessing's method spawn"
        )
    job = Job(work, put)
    _worker.add(job)
    return job


class Reading:
    """The items of a job, for a thread; closing it cancels the job."""

    def __init__(self, work: Work, alone: bool = True) -> None:
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._patience: float | None = None
        self.job = submit(work, self._inbox.put, alone)

    def end_soon(self, patience: float) -> None:
        """Cancel the job, and wait no longer than `patience` seconds for what it still gives.
        May be called by a signal handler."""
        self._patience = patience
        self.job.cancel()
        self._inbox.put(_WAKE)

    def items(self) -> Generator[Any, None, None]:
        deadline: float | None = None
        try:
            while True:
                try:
                    item = self._inbox.get(timeout=_left(deadline))
                except queue.Empty:
                    return
                if item is _WAKE and self._patience is not None:
                    deadline = time.monotonic() + self._patience
                elif isinstance(item, Done):
                    if item.error:
                        raise item.error
                    return
                else:
                    yield item
        finally:
            self.job.cancel()


_WAKE = object()  # in an inbox: look at the clock from now on


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
