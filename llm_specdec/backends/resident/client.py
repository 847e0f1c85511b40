"""`execute` by way of a worker: the same events, the same Result, nothing heavy in this process."""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator

from llm_specdec.backends.events import Event, Notice, Request, Started
from llm_specdec.backends.planning import Plan
from llm_specdec.backends.resident import starting, wire
from llm_specdec.backends.resident.room import with_room
from llm_specdec.backends.resident.starting import Unreachable
from llm_specdec.backends.resident.wire import BadMessage, Channel, Closed, Message
from llm_specdec.errors import ResourceError

TICK = 0.05  # seconds between two looks at `cancelled`
SILENCE = 20.0  # seconds without a sign of life, after which the worker counts as stuck
TRIES = 2  # workers that may be lost before the answer is made here


class _Lost(Exception):
    """The worker is gone before it said anything of the answer."""


def execute(plan: Plan, request: Request, cancelled: Callable[[], bool]) -> Iterator[Event]:
    """See `backends.execute`. Where no worker can be had, or another one dies before it said
    anything, the answer is made in this process, after a line that says so."""
    why: Exception | None = None
    for _ in range(TRIES):
        try:
            yield from with_room(lambda: _answered(plan, request, cancelled), plan.target)
            return
        except Unreachable as error:
            why = error
            break
        except _Lost as error:  # with all that waited for it: one of them starts another
            why = error
    yield Notice("warning", f"answered without a resident worker: {why}")
    from llm_specdec.backends import local

    yield from with_room(lambda: local.execute(plan, request, cancelled))


def _answered(
    plan: Plan, request: Request, cancelled: Callable[[], bool]
) -> Generator[Event, None, None]:
    with contextlib.closing(starting.connected(plan)) as channel:
        yield from _events(channel, plan, request, cancelled)


def _events(
    channel: Channel, plan: Plan, request: Request, cancelled: Callable[[], bool]
) -> Iterator[Event]:
    """Raises _Lost, and ResourceError where part of the answer was said already."""
    said = False
    try:
        channel.send(wire.asked(plan, request))
        for message in _messages(channel, cancelled):
            if "failure" in message:
                raise wire.read_failure(message)
            if "stale" in message:
                raise _Lost(str(message["stale"]))
            if "waiting" in message:
                yield Notice("progress", _waiting(int(message["waiting"])))
            elif "event" in message:
                event = wire.read_event(message)
                said = said or not isinstance(event, Notice | Started)
                yield event
    except (Closed, BadMessage) as error:
        if said:
            raise ResourceError(
                "the resident worker died in the middle of the answer: ask again"
            ) from error
        raise _Lost("it died before it answered") from error


def _messages(channel: Channel, cancelled: Callable[[], bool]) -> Iterator[Message]:
    """All that the worker says, to its end; asks for the end once `cancelled`.

    Raises Closed, BadMessage, and ResourceError where the worker is silent.
    """
    ending, heard = False, time.monotonic()
    while True:
        if cancelled() and not ending:
            channel.send({"do": "end"})
            ending = True
        message = channel.receive(TICK)
        if message is not None:
            if "end" in message:
                return
            heard = time.monotonic()
            yield message
        elif time.monotonic() - heard > SILENCE:
            raise ResourceError(
                f"the resident worker has been silent for {SILENCE:.0f} s: "
                "end it with llm specdec stop"
            )


def _waiting(before: int) -> str:
    return f"waiting for {before} prompt{'s' if before > 1 else ''} before this one"
