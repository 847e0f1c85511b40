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
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

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
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
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
        """Wait until the thread is idle: inside MLX, or on its own way out, while the process
        takes itself apart, it would crash it."""
        if self.process != os.getpid():  # a fork has no such thread
            return
        self._ending = True
        if job := self._current:
            job.cancel()
        idle = threading.Event()
        self.add(Job(_nothing, lambda item: idle.set()))
        with contextlib.suppress(KeyboardInterrupt):
            idle.wait()


def _nothing(job: Job) -> Generator[Any, None, None]:
    yield from ()


_worker: Worker | None = None
_starting = threading.Lock()


def submit(work: Work, put: Callable[[Any], None]) -> Job:
    """Queue a job on the process's worker, which is started on first use."""
    global _worker
    with _starting:
        if _worker is None or _worker.process != os.getpid():
            _worker = Worker()
    job = Job(work, put)
    _worker.add(job)
    return job


class Reading:
    """The items of a job, for a thread; closing it cancels the job."""

    def __init__(self, work: Work) -> None:
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.job = submit(work, self._inbox.put)

    def items(self) -> Generator[Any, None, None]:
        try:
            while not isinstance(item := self._inbox.get(), Done):
                yield item
            if item.error:
                raise item.error
        finally:
            self.job.cancel()
