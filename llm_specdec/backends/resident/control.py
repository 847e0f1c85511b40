"""What workers hold, and their end. Nothing here starts a worker or keeps one alive."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from llm_specdec.backends.resident import identity, places, starting
from llm_specdec.backends.resident.places import Place
from llm_specdec.backends.resident.wire import BadMessage, Closed, Silent
from llm_specdec.errors import ResourceError

END = 5.0  # seconds that a worker has to end by itself


@dataclass(frozen=True)
class Held:
    """A worker that answers, or whose process is there and does not: then `status` is empty.

    pid: None where the process is not this user's, or cannot be told.
    """

    place: Place
    pid: int | None
    status: dict[str, Any]

    @property
    def target(self) -> str:
        return str(self.status.get("target") or "")

    @property
    def nbytes(self) -> int:
        """Memory that it holds."""
        if self.status:
            return int(self.status["bytes"])
        return _memory_of(self.pid) if self.pid else 0

    @property
    def stuck(self) -> bool:
        return not self.status

    @property
    def outdated(self) -> bool:
        """Whether another version of something was installed since it started."""
        return bool(self.status) and self.status.get("versions") != identity.versions()


def workers() -> list[Held]:
    """All there are; a socket that nobody listens at is none. Raises ResourceError."""
    return [held for place in places.all_places() if (held := _ask(place))]


def _ask(place: Place) -> Held | None:
    try:
        channel = starting.connect(place)
    except OSError:
        return Held(place, None, {})
    if channel is None:
        return None
    with contextlib.closing(channel):
        try:
            return Held(place, channel.pid, starting.greet(channel, "status"))
        except (Silent, BadMessage):
            return Held(place, channel.pid, {})
        except Closed:  # it ended meanwhile
            return None


def stop(held: Held) -> bool:
    """End a worker, in the middle of an answer too, and one that does not answer; whether it is
    gone."""
    if held.pid is None:
        return False
    if _told_to_stop(held.place) and _is_gone(held.pid, END):
        return True
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(held.pid, signum)
        if _is_gone(held.pid, 1.0):
            return True
    return False


def _told_to_stop(place: Place) -> bool:
    with contextlib.suppress(OSError, Closed, Silent, BadMessage):
        if channel := starting.connect(place):
            with contextlib.closing(channel):
                starting.greet(channel, "stop")
                return True
    return False


def make_room(missing: int, target: str | None = None) -> bool:
    """Stop the worker that holds weights and was idle the longest, but that of `target`. False
    where all idle ones together hold less than what is missing: then none is stopped."""
    try:
        own = places.place_of(target) if target else None
        others = [
            held
            for held in workers()
            if held.place != own and held.target and not held.status["busy"]
        ]
    except ResourceError:
        return False
    if not others or sum(held.nbytes for held in others) < missing:
        return False
    return stop(max(others, key=lambda held: float(held.status["idle_s"])))


def held_elsewhere() -> int:
    """Bytes that workers hold, this process left out."""
    try:
        found = workers()
    except ResourceError:
        return 0
    return sum(held.nbytes for held in found if held.pid != os.getpid())


def _memory_of(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _is_gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not _alive(pid):
            return True
        time.sleep(0.02)
    return not _alive(pid)


def _alive(pid: int) -> bool:
    """A process that has ended and that nobody waited for counts as gone, once its last thread
    has ended too: until then its socket is open."""
    import psutil

    try:
        process = psutil.Process(pid)
        return bool(process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    except psutil.NoSuchProcess:
        return False
