"""The worker of a target: found, or started, and greeted."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from typing import Any

from llm_specdec import files
from llm_specdec.backends.planning import Plan
from llm_specdec.backends.resident import identity, places, wire
from llm_specdec.backends.resident.places import Place
from llm_specdec.backends.resident.wire import BadMessage, Channel, Closed, Message, Silent
from llm_specdec.errors import ResourceError

# Seconds that are waited for: a connection, an answer to a greeting, a process that starts, one
# that ends after its last answer, one that takes in a prompt.
CONNECT, GREETING, START, END, TAKE = 2.0, 5.0, 20.0, 10.0, 20.0
LOG_LIMIT = 1 << 20  # bytes; a longer log is begun anew
TRIES = 3


class Unreachable(Exception):
    """No worker can be had; the text says why."""


def connected(plan: Plan) -> Channel:
    """A channel to the worker of the plan's target, which will answer it.

    One process at a time looks for a worker, so that twenty commands at once start one.
    Raises Unreachable.
    """
    try:
        place = places.place_of(plan.target)
        with files.locked(place.start, seconds=GREETING + END + START):
            for _ in range(TRIES):
                if channel := _greeted(place, plan):
                    return channel
                _start(place)
    except (OSError, ResourceError, TimeoutError) as error:
        raise Unreachable(str(error)) from error
    raise Unreachable(f"the worker ended as soon as it was asked: see {place.log}")


def _greeted(place: Place, plan: Plan) -> Channel | None:
    """None where there is no worker, or none any more that may answer this plan."""
    channel = connect(place)
    if channel is None:
        return None
    holds = identity.of_plan(plan)
    told = {"versions": identity.versions(), "environment": identity.environment()}
    try:
        reply = greet(channel, "run", **told, holds=holds)
    except Closed:
        return None
    except (Silent, BadMessage) as error:
        who = f"process {channel.pid} has its socket and does not answer"
        channel.close()
        raise Unreachable(f"{who}: llm specdec stop ends it") from error
    if "stale" not in reply:
        return channel
    with contextlib.suppress(Closed, BadMessage):
        channel.receive(END)  # it closes when it ends; one that is busy is not waited for
    channel.close()
    return None


def connect(place: Place) -> Channel | None:
    """A connection to the worker that listens there, if one does. Raises OSError where the
    socket is somebody else's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT)
    try:
        connection.connect(str(place.socket))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError:
        connection.close()
        raise
    if not wire.is_ours(connection):
        connection.close()
        raise PermissionError(f"{place.socket} is another user's")
    return Channel(connection, patience=TAKE)


def greet(channel: Channel, what: str, **more: Any) -> Message:
    """What the worker answers to being asked to do `what`. Raises Closed, BadMessage, Silent."""
    channel.send({"protocol": wire.PROTOCOL, "do": what, **more})
    reply = channel.receive(GREETING)
    if reply is None:
        raise Silent
    if reply.get("protocol") != wire.PROTOCOL:
        raise BadMessage("another protocol")
    return reply


def _start(place: Place) -> None:
    """Start a process, and wait until it listens. Raises Unreachable, OSError."""
    files.make_private(place.log)
    with place.log.open("ab") as log:
        if log.tell() > LOG_LIMIT:
            log.truncate(0)
        process = subprocess.Popen(
            [sys.executable, "-m", "llm_specdec.backends.resident.server", str(place.socket)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=place.socket.parent,
            env={**os.environ, "LLM_USER_PATH": str(places.user_folder())},
            start_new_session=True,  # Ctrl-C is for the command, not for the worker
        )
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unreachable(f"it ended with status {process.returncode}: see {place.log}")
        if channel := connect(place):
            with contextlib.closing(channel):
                if channel.pid == process.pid:  # and not one that it takes the place of
                    return
        time.sleep(0.01)
    process.kill()
    raise Unreachable(f"it did not start within {START:.0f} s: see {place.log}")
