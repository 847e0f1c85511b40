"""Messages between client and worker: JSON of known length, over a socket of one user's own.

A message is four bytes of length, big-endian, then a JSON object of that length. The first one
of either side names the protocol. Everything sent is plain data that is checked as it is read.
"""

import contextlib
import dataclasses
import functools
import json
import os
import select
import socket
import struct
import sys
import threading
import time
from typing import Any, NamedTuple

import pydantic

from llm_specdec import errors
from llm_specdec.backends.events import (
    Event,
    Notice,
    Reasoning,
    Request,
    Started,
    Text,
    Tokens,
    ToolCall,
)
from llm_specdec.backends.planning import Plan
from llm_specdec.receipts import Result

PROTOCOL = 1
LIMIT = 256 << 20  # bytes of a message; a prompt of a million tokens has some ten million

Message = dict[str, Any]

_EVENTS: dict[str, Any] = {
    kind.__name__: kind for kind in (Started, Text, Reasoning, ToolCall, Tokens, Notice, Result)
}


# While llm prints, SIGPIPE ends the process, as a shell expects; a worker that dies must not.
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_SO_NOSIGPIPE = 0x1022  # of macOS' <sys/socket.h>


class Closed(Exception):
    """The other side is gone."""


class Silent(Exception):
    """The other side is there and does not answer."""


class BadMessage(Exception):
    """What came is no message of this protocol."""


class Channel:
    """Messages over one connected socket. Threads may send at the same time.

    patience: seconds after which a message that nobody takes counts as refused; None: none.
    """

    def __init__(self, connection: socket.socket, patience: float | None = None) -> None:
        connection.settimeout(patience)
        if sys.platform == "darwin":
            connection.setsockopt(socket.SOL_SOCKET, _SO_NOSIGPIPE, 1)
        self._connection = connection
        self._sending = threading.Lock()
        self._received = bytearray()

    @property
    def pid(self) -> int:
        """The process at the other end."""
        return peer(self._connection).pid

    def send(self, message: Message) -> None:
        """Raises Closed."""
        body = json.dumps(message).encode("ascii")
        try:
            with self._sending:
                self._connection.sendall(struct.pack(">I", len(body)) + body, _NO_SIGNAL)
        except OSError as error:
            raise Closed from error

    def receive(self, seconds: float | None = None) -> Message | None:
        """The next message; None where none is complete within `seconds`.

        Raises Closed, BadMessage.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while (size := self._size()) is None or len(self._received) < 4 + size:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                if not select.select([self._connection], [], [], left)[0]:
                    return None
                more = self._connection.recv(1 << 16)
            except (OSError, ValueError) as error:  # closed by another thread
                raise Closed from error
            if not more:
                raise Closed
            self._received += more
        body = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        return _object(body)

    def _size(self) -> int | None:
        if len(self._received) < 4:
            return None
        size: int = struct.unpack(">I", self._received[:4])[0]
        if size > LIMIT:
            raise BadMessage(f"a message of {size:,} bytes")
        return size

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _object(body: bytes) -> Message:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadMessage("no JSON") from error
    if not isinstance(found, dict):
        raise BadMessage("no JSON object")
    return found


class Peer(NamedTuple):
    """The process at the other end of a socket, by the operating system's account."""

    pid: int
    user: int


def peer(connection: socket.socket) -> Peer:
    if sys.platform == "linux":
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, user, _ = struct.unpack("3i", raw)
        return Peer(pid, user)
    # SOL_LOCAL with LOCAL_PEERCRED and LOCAL_PEERPID of <sys/un.h>; struct xucred begins with
    # version and uid.
    _, user = struct.unpack_from("2I", connection.getsockopt(0, 1, 76))
    return Peer(connection.getsockopt(0, 2), user)


def is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user."""
    return peer(connection).user == os.getuid()


@functools.cache
def _reader(kind: Any) -> pydantic.TypeAdapter[Any]:
    """Checks fields of a dataclass. Making one takes a hundred times as long as using it."""
    return pydantic.TypeAdapter(kind)


def asked(plan: Plan, request: Request) -> Message:
    return {"plan": dataclasses.asdict(plan), "request": dataclasses.asdict(request)}


def read_asked(message: Message) -> tuple[Plan, Request]:
    """Raises BadMessage."""
    try:
        plan = _reader(Plan).validate_python(message["plan"])
        return plan, _reader(Request).validate_python(message["request"])
    except (KeyError, pydantic.ValidationError) as error:
        raise BadMessage("no plan and request") from error


def event(found: Event) -> Message:
    return {"event": type(found).__name__, **dataclasses.asdict(found)}


def read_event(message: Message) -> Event:
    """Raises BadMessage."""
    fields = dict(message)
    kind = _EVENTS.get(fields.pop("event", ""))
    try:
        if kind is None:
            raise KeyError
        found: Event = _reader(kind).validate_python(fields)
    except (KeyError, pydantic.ValidationError) as error:
        raise BadMessage(f"no event: {message.get('event')}") from error
    return found


def failure(error: Exception) -> Message:
    """An error as the client raises it again; one that nobody expects, in its own words."""
    if isinstance(error, errors.DoesNotFit):
        return {"failure": "DoesNotFit", "text": str(error), "missing": error.missing}
    if isinstance(error, errors.SpecdecError):
        return {"failure": type(error).__name__, "text": str(error)}
    return {"failure": "ResourceError", "text": f"{type(error).__name__}: {error}"}


def read_failure(message: Message) -> errors.SpecdecError:
    if message.get("failure") == "DoesNotFit":
        return errors.DoesNotFit(str(message.get("text")), int(message.get("missing", 0)))
    kind = getattr(errors, str(message.get("failure")), None)
    known = isinstance(kind, type) and issubclass(kind, errors.SpecdecError)
    return (kind if known and kind else errors.ResourceError)(str(message.get("text")))
