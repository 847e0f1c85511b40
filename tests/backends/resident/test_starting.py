"""What answers at a worker's socket, and is none: said in a line, within seconds."""

import os
import socket
import struct
import subprocess
import sys
import threading

import pytest

from llm_specdec.backends import Notice, Request, Text
from llm_specdec.backends.resident import client, control, places, starting, wire
from llm_specdec.backends.resident.starting import Unreachable
from llm_specdec.backends.resident.wire import Channel
from tests.support.plans import planned


def frame(body):
    return struct.pack(">I", len(body)) + body


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Something that listens where the worker of a plan should, and says what it is given."""
    monkeypatch.setattr(starting, "GREETING", 0.3)
    plan = planned(tmp_path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(places.place_of(plan.target).socket))
    listening.listen(8)
    kept = []

    def serve(said):
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            kept.append(connection)
            connection.sendall(said)

    def start(said):
        threading.Thread(target=serve, args=(said,), daemon=True).start()
        return plan

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        frame(b'{"protocol": 1}')[:9],
        frame(b"hello"),
        frame(b'{"protocol": 99}'),
        struct.pack(">I", wire.LIMIT + 1),
    ],
    ids=["nothing", "half a message", "no message", "another protocol", "too long"],
)
def test_what_is_no_worker_is_not_waited_for_and_not_replaced(stranger, said):
    plan = stranger(said)
    with pytest.raises(Unreachable, match=f"process {os.getpid()} has its socket and does not"):
        starting.connected(plan)
    [held] = control.workers()
    assert held.stuck and held.pid == os.getpid()


@pytest.mark.parametrize("kind", ["file", "link", "stale socket"])
def test_whatever_lies_in_the_sockets_place_gives_way(tmp_path, kind):
    """Nobody listens there."""
    path = places.place_of(str(tmp_path)).socket
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.bind(str(path))
    assert control.workers() == []
    from llm_specdec.backends.resident import server

    with server.listen(path):
        channel = starting.connect(places.place_of(str(tmp_path)))
        assert channel and channel.pid == os.getpid()
        channel.close()
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_prompt_that_nobody_takes_in_is_given_up():
    one, other = socket.socketpair()
    with other:
        channel = Channel(one, patience=0.2)
        with pytest.raises(wire.Closed):
            channel.send({"text": "x" * (16 << 20)})
        channel.close()


SENDS = """
import signal, socket
from llm_specdec.backends.resident import wire
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as while llm prints
one, other = socket.socketpair()
other.close()
try:
    wire.Channel(one).send({})
except wire.Closed:
    print("closed")
"""


def test_a_worker_that_is_gone_does_not_end_the_command_by_a_signal():
    done = subprocess.run([sys.executable, "-c", SENDS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "closed\n")


def test_a_worker_that_dies_is_replaced_once_and_then_done_without(tmp_path, monkeypatch):
    """Twenty commands that wait for one worker must not load twenty models when it dies."""
    asked = []

    def connected(plan):
        one, other = socket.socketpair()
        other.close()
        asked.append(plan)
        return Channel(one)

    def here(plan, request, cancelled):
        yield Text("hi")

    monkeypatch.setattr(starting, "connected", connected)
    monkeypatch.setattr("llm_specdec.backends.local.execute", here)
    found = list(client.execute(planned(tmp_path), Request(), lambda: False))
    assert len(asked) == 2
    assert found == [
        Notice("warning", "answered without a resident worker: it died before it answered"),
        Text("hi"),
    ]
