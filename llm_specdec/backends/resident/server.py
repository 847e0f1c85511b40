"""The worker process: one target in memory, prompts answered in the order asked.

    python -m llm_specdec.backends.resident.server SOCKET

It listens before it imports anything heavy, so that whoever started it can connect at once. The
main thread runs the prompts and sleeps in between; each connection has a thread that reads and,
once it asked for an answer, one that writes, so that a slow reader holds up nobody. When nothing
was asked for as long as the last plan keeps it, when told to stop, or when what it holds is not
what is on disk any more, the process ends, and its memory with it.
"""

import contextlib
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from llm_specdec.backends.events import Event, Notice, Request
from llm_specdec.backends.planning import Plan
from llm_specdec.backends.resident import identity, wire
from llm_specdec.backends.resident.wire import BadMessage, Channel, Closed, Message
from llm_specdec.console.text import echo
from llm_specdec.prompting import rendering
from llm_specdec.receipts import Result

FIRST_WAIT = 60.0  # seconds that a worker waits for its first prompt
PATIENCE = 1.0  # seconds in the queue, after which a client is told
SIGN_OF_LIFE = 5.0  # seconds between two while a client waits
READING = 600.0  # seconds that a reader may take for the end of its answer
FAREWELL = 3.0  # seconds in which the last answers are sent, before the process ends

CHANGED = "the files of a model changed"
_END = object()  # in an outbox: nothing follows


@dataclass(eq=False)
class Ask:
    """One prompt of one connection. `outbox` is what its writing thread sends."""

    plan: Plan
    request: Request
    since: float  # monotonic
    outbox: "queue.SimpleQueue[Any]" = field(default_factory=queue.SimpleQueue)
    cancelled: threading.Event = field(default_factory=threading.Event)
    sent: threading.Event = field(default_factory=threading.Event)


class Worker:
    """What the process holds and does. `execute` is the local backend's."""

    def __init__(
        self, execute: Callable[[Plan, Request, Callable[[], bool]], Generator[Event]]
    ) -> None:
        self._execute = execute
        self._asks: queue.SimpleQueue[Ask | None] = queue.SimpleQueue()
        self._started, self._used = time.time(), time.monotonic()
        self._keep: float | None = FIRST_WAIT  # seconds; None: for ever
        self._served = 0
        self._current: Ask | None = None
        self._queue: list[Ask] = []  # asked and not begun
        self._unsent: list[Ask] = []  # those, and all whose answer is not with the client yet
        self._stopping = False
        self._stale = ""
        self._holds: dict[str, str] = {}  # folder → what identity.of said when it was loaded
        self._pairings: dict[str, None] = {}  # in the order they came
        self._lock = threading.Lock()

    # The main thread

    def serve(self) -> None:
        """Answer until it is time to end."""
        while not (self._stopping or self._stale):
            try:
                ask = self._asks.get(timeout=self._left())
            except queue.Empty:
                if not self._queue:
                    return
                continue
            if ask is not None and not (self._stopping or self._stale):
                self._answer(ask)
        self._say_farewell()

    def _left(self) -> float | None:
        """Seconds until it is time to end; not before a slow reader has its answer."""
        if self._keep is None:
            return None
        keep = max(self._keep, READING) if self._unsent else self._keep
        return max(self._used + keep - time.monotonic(), 0.0)

    def _say_farewell(self) -> None:
        """Wait for answers that are on their way. Who asked and was not begun with asks anew."""
        deadline = time.monotonic() + FAREWELL
        with self._lock:
            answered = [ask for ask in self._unsent if ask not in self._queue]
        for ask in answered:
            ask.sent.wait(max(deadline - time.monotonic(), 0.0))

    def _answer(self, ask: Ask) -> None:
        with self._lock:
            if ask not in self._queue:  # given up
                return
            self._current = ask
            self._queue.remove(ask)
        queued = time.monotonic() - ask.since
        try:
            self._run(ask, queued)
        except KeyboardInterrupt:
            pass  # cancelled before it began
        except Exception as error:
            ask.outbox.put(wire.failure(error))
        finally:
            ask.outbox.put(_END)
            with self._lock:
                self._current, self._served = None, self._served + 1
                self._used, self._keep = time.monotonic(), ask.plan.keep_alive

    def _run(self, ask: Ask, queued: float) -> None:
        holds = identity.of_plan(ask.plan)
        if self._has_other(holds):  # they changed while it waited
            self._stale = CHANGED
            ask.outbox.put({"stale": CHANGED})
            return
        warm = holds.items() <= self._holds.items()
        self._holds |= holds
        self._pairings[ask.plan.pairing] = None
        told = False  # all of the answer

        def cancelled() -> bool:
            """What is done after an answer goes on without its reader, but nobody waits for it."""
            return self._is_wanted() if told else ask.cancelled.is_set()

        with contextlib.closing(self._execute(ask.plan, ask.request, cancelled)) as events:
            for event in events:
                if told:
                    if isinstance(event, Notice) and event.level == "warning":
                        echo(event.text, err=True)
                elif isinstance(event, Result):
                    ask.outbox.put(wire.event(_as_served(event, warm, queued)))
                    ask.outbox.put(_END)
                    told = True
                    if not ask.plan.keeps_on_disk:
                        break  # what llm does not log is not kept here either
                else:
                    ask.outbox.put(wire.event(event))
        rendering.start_ahead()  # for the next prompt

    def _is_wanted(self) -> bool:
        """Whether there is something else to do."""
        return bool(self._queue) or self._stopping or bool(self._stale)

    def _has_other(self, holds: Mapping[str, str]) -> bool:
        """Whether a folder that was loaded is not as it was then."""
        return any(self._holds.get(folder, stamp) != stamp for folder, stamp in holds.items())

    # Threads of connections

    def welcome(self, connection: socket.socket) -> None:
        """Talk to one client, to its end."""
        channel = Channel(connection)
        with contextlib.suppress(Closed, BadMessage), contextlib.closing(channel):
            if not wire.is_ours(connection):
                return
            hello = channel.receive(SIGN_OF_LIFE)
            if hello is None:
                return
            if why := self._unfit(hello):
                self._stale = why
                channel.send({"protocol": wire.PROTOCOL, "stale": why, "pid": os.getpid()})
                self._asks.put(None)
                return
            {"run": self._take, "status": self._tell, "stop": self._stop}[hello["do"]](channel)

    def _unfit(self, hello: Mapping[str, Any]) -> str:
        """Why this worker must not answer; "" where it may."""
        if hello.get("do") not in ("run", "status", "stop"):
            raise BadMessage("nothing that is done here")
        if hello["do"] != "run" or self._stopping:
            return ""
        if hello.get("protocol") != wire.PROTOCOL or hello.get("versions") != identity.versions():
            return "another version is installed"
        if hello.get("environment") != identity.environment():
            return "the environment has other settings"
        holds = hello.get("holds")
        return CHANGED if isinstance(holds, dict) and self._has_other(holds) else ""

    def _take(self, channel: Channel) -> None:
        """A prompt: put it in the queue, and watch for its end."""
        channel.send({"protocol": wire.PROTOCOL, "pid": os.getpid()})
        message = channel.receive(SIGN_OF_LIFE)
        if message is None:
            return
        ask = Ask(*wire.read_asked(message), since=time.monotonic())
        with self._lock:
            waits = bool(self._queue) or self._current is not None
            self._queue.append(ask)
            self._unsent.append(ask)
        self._asks.put(ask)
        if waits:
            threading.Timer(PATIENCE, self._say_waiting, (ask,)).start()
        writer = threading.Thread(target=self._send, args=(channel, ask), daemon=True)
        writer.start()
        try:
            while channel.receive() is not None:  # whatever it says, it asks for the end
                self._give_up(ask)
        finally:
            self._give_up(ask)
            writer.join()

    def _give_up(self, ask: Ask) -> None:
        """End it within a round; one that waits is forgotten at once."""
        ask.cancelled.set()
        with self._lock:
            waits = ask in self._queue
            if waits:
                self._queue.remove(ask)
        if waits:
            ask.outbox.put(_END)

    def _send(self, channel: Channel, ask: Ask) -> None:
        _write(channel, ask)
        ask.sent.set()
        with self._lock:
            self._unsent.remove(ask)
            self._used = time.monotonic()
        self._asks.put(None)  # the idle time begins anew

    def _say_waiting(self, ask: Ask) -> None:
        with self._lock:
            if ask not in self._queue:
                return
            before = self._queue.index(ask) + (self._current is not None)
        ask.outbox.put({"waiting": before})

    def _tell(self, channel: Channel) -> None:
        channel.send({"protocol": wire.PROTOCOL, **self.status()})

    def _stop(self, channel: Channel) -> None:
        self._stopping = True
        with self._lock:
            if self._current:
                self._current.cancelled.set()
        channel.send({"protocol": wire.PROTOCOL, "pid": os.getpid()})
        self._asks.put(None)

    def status(self) -> Message:
        """What `llm specdec ps` shows. Reads only: it keeps nothing alive."""
        with self._lock:
            busy, waiting = self._current is not None, len(self._queue)
        idle = 0.0 if busy else time.monotonic() - self._used
        return {
            "pid": os.getpid(),
            "target": next(iter(self._holds), None),
            "pairings": list(self._pairings),
            "since": self._started,
            "busy": busy,
            "waiting": waiting,
            "idle_s": idle,
            "left_s": None if self._keep is None else max(self._keep - idle, 0.0),
            "requests": self._served,
            "versions": identity.versions(),
            **_memory(),
        }


def _write(channel: Channel, ask: Ask) -> None:
    """Send what is in the outbox, and a sign of life where nothing comes for a while."""
    with contextlib.suppress(Closed):
        while True:
            try:
                message = ask.outbox.get(timeout=SIGN_OF_LIFE)
            except queue.Empty:
                channel.send({"alive": True})
                continue
            if message is _END:
                break
            channel.send(message)
        channel.send({"end": True})


def _as_served(result: Result, warm: bool, queued: float) -> Result:
    """The result with what it has of the worker; nothing was loaded where all was here."""
    load = 0.0 if warm else result.phases_ms.get("load", 0.0)
    worker = {"resident": True, "pid": os.getpid(), "queued_ms": round(1000 * queued, 3)}
    return replace(result, phases_ms={**result.phases_ms, "load": load}, worker=worker)


def _memory() -> Message:
    """Bytes of the process, and entries of its prefix cache. What lies on a GPU is no part of
    what the operating system counts."""
    import psutil

    found: Message = {"bytes": psutil.Process().memory_info().rss, "entries": 0}
    if "llm_specdec.backends.local" in sys.modules:
        from llm_specdec.engine.hardware import device
        from llm_specdec.prefix_cache import process

        found["bytes"] = max(found["bytes"], device.memory_held())
        found["entries"] = len(process.hot())
    return found


def listen(path: Path) -> socket.socket:
    """A socket for this user alone, in place of whatever was there. It takes its name once it
    can be connected to."""
    new = path.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(new))
    finally:
        os.umask(before)
    listening.listen(128)
    new.rename(path)
    return listening


def _accept(listening: socket.socket, worker: Worker) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=worker.welcome, args=(connection,), daemon=True).start()


def main(path: Path) -> None:
    identity.versions()  # now: later ones would be those of an upgrade
    identity.environment()  # now: libraries set variables of their own
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, _end)
    listening = listen(path)
    inode = path.stat().st_ino

    def execute(plan: Plan, request: Request, cancelled: Callable[[], bool]) -> Generator[Event]:
        from llm_specdec.backends import local

        yield from local.execute(plan, request, cancelled)

    worker = Worker(execute)
    threading.Thread(target=_accept, args=(listening, worker), daemon=True).start()
    try:
        worker.serve()
    finally:
        with contextlib.suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()
        listening.close()
        sys.stderr.flush()
        os._exit(0)  # at once: mlx's threads must not run while Python takes itself apart


def _end(signum: int, frame: FrameType | None) -> None:
    raise SystemExit


if __name__ == "__main__":
    main(Path(sys.argv[1]))
