"""What workers hold, and their end. Nothing here starts a worker or keeps one alive."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from llm_specdec.backends.resident import identity, places, starting
from llm_specdec.backends.resident.places import Place
from llm_specdec.backends.resident.wire import BadMessage, Closed

END = 5.0  # seconds that a worker has to end by itself


@dataclass(frozen=True)
class Held:
    """A worker that answers, or whose process is there and does not: then `status` is empty."""

    place: Place
    status: dict[str, Any]

    @property
    def target(self) -> str:
        return str(self.status.get("target") or "")

    @property
    def stuck(self) -> bool:
        return not self.status

    @property
    def outdated(self) -> bool:
        """Whether another version of something was installed since it started."""
        return bool(self.status) and self.status.get("versions") != identity.versions()


def workers() -> list[Held]:
    """All there are; a socket that nobody answers at any more is removed. Raises ResourceError."""
    return [held for place in places.all_places() if (held := _ask(place))]


def _ask(place: Place) -> Held | None:
    try:
        channel = starting.connect(place)
    except OSError:
        return Held(place, {})
    if channel is None:
        with contextlib.suppress(OSError):
            place.socket.unlink()
        return None
    with contextlib.closing(channel):
        try:
            return Held(place, starting.greet(channel, "status"))
        except (Closed, BadMessage):
            return Held(place, {})


def stop(held: Held) -> bool:
    """End a worker, in the middle of an answer too; whether it is gone."""
    pid = held.status.get("pid")
    with contextlib.suppress(OSError, Closed, BadMessage):
        if channel := starting.connect(held.place):
            with contextlib.closing(channel):
                pid = starting.greet(channel, "stop")["pid"]
    if not isinstance(pid, int):
        return False
    for signum in (None, signal.SIGTERM, signal.SIGKILL):
        if signum is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)
        if _is_gone(pid, END if signum is None else 1.0):
            return True
    return False


def make_room(target: str) -> bool:
    """Stop the worker of another target that was idle the longest; False where there is none."""
    others = [
        held
        for held in workers()
        if held.place != places.place_of(target) and held.status and not held.status["busy"]
    ]
    return bool(others) and stop(max(others, key=lambda held: float(held.status["idle_s"])))


def _is_gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not _alive(pid):
            return True
        time.sleep(0.02)
    return not _alive(pid)


def _alive(pid: int) -> bool:
    """A process that has ended and that nobody waited for counts as gone."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
