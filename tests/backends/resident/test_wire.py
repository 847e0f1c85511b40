"""Messages arrive whole or not at all, and nothing that is not plain data is read."""

import socket
import struct
import threading

import pytest

from llm_specdec.backends import Notice, Reasoning, Started, Text, Tokens, ToolCall
from llm_specdec.backends.resident import wire
from llm_specdec.backends.resident.wire import BadMessage, Channel, Closed
from llm_specdec.errors import ContextError, DoesNotFit, ResourceError
from tests.support.receipts import run


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    yield Channel(one), other
    one.close()
    other.close()


def test_a_message_in_pieces_is_read_when_it_is_whole(pair):
    channel, other = pair
    body = b'{"a": "\\u00e9"}'
    frame = struct.pack(">I", len(body)) + body
    for byte in frame[:-1]:
        other.sendall(bytes([byte]))
        assert channel.receive(0) is None
    other.sendall(frame[-1:] + frame)
    assert [channel.receive(1), channel.receive(1)] == [{"a": "é"}] * 2


def test_what_is_too_long_or_no_object_is_refused(pair):
    channel, other = pair
    for body, why in ((b"[1]", "no JSON object"), (b"{", "no JSON")):
        other.sendall(struct.pack(">I", len(body)) + body)
        with pytest.raises(BadMessage, match=why):
            channel.receive(1)
    other.sendall(struct.pack(">I", wire.LIMIT + 1))
    with pytest.raises(BadMessage, match="bytes"):
        channel.receive(1)


def test_the_end_of_the_other_side_is_noticed(pair):
    channel, other = pair
    other.sendall(b"\0\0")
    other.close()
    with pytest.raises(Closed):
        channel.receive(1)
    with pytest.raises(Closed):
        channel.send({})


def test_messages_of_two_threads_do_not_mix(pair):
    channel, other = pair
    threads = [
        threading.Thread(target=lambda n=n: [channel.send({"n": n, "x": "y" * 9999})] * 1)
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    reader = Channel(other)
    found = [reader.receive(5) for _ in threads]
    assert sorted(message["n"] for message in found if message) == list(range(8))
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "event",
    [
        Started(),
        Text("süß\n"),
        Reasoning("hm"),
        ToolCall("add", '{"a": 1}', "abc"),
        Tokens((1, 2)),
        Notice("warning", "mind the gap"),
        run(deviations=[{"setting": "top_p"}], worker={"resident": True, "pid": 1}),
    ],
)
def test_every_event_comes_back_as_it_was(event):
    message = wire.event(event)
    assert wire.event(wire.read_event(message)) == message
    assert type(wire.read_event(message)) is type(event)


def test_what_is_no_event_is_refused():
    for message in ({}, {"event": "Plan"}, {"event": "Text"}, {"event": "Text", "text": 1}):
        with pytest.raises(BadMessage):
            wire.read_event(message)


def test_errors_keep_their_kind():
    found = wire.read_failure(wire.failure(ContextError("too long")))
    assert (type(found), str(found)) == (ContextError, "too long")
    short = wire.read_failure(wire.failure(DoesNotFit("no room", 7)))
    assert isinstance(short, DoesNotFit) and short.missing == 7
    odd = wire.read_failure(wire.failure(ZeroDivisionError("by zero")))
    assert (type(odd), str(odd)) == (ResourceError, "ZeroDivisionError: by zero")
    assert type(wire.read_failure({"failure": "json", "text": "x"})) is ResourceError


def test_a_process_of_this_user_is_known():
    one, other = socket.socketpair()
    with one, other:
        assert wire.is_ours(one)
