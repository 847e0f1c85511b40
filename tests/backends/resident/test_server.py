"""The worker's own decisions, without a process: queue, idle time, who may be answered."""

import dataclasses
import queue
import socket
import threading
import time

import pytest

from llm_specdec.backends import Request, Started, Text
from llm_specdec.backends.resident import identity, server
from llm_specdec.backends.resident.wire import BadMessage, Channel
from tests.support.plans import planned
from tests.support.receipts import run


def asked(plan):
    return server.Ask(plan, Request(), time.monotonic())


def outbox(ask):
    found = []
    while (message := ask.outbox.get(timeout=5)) is not server._END:
        found.append(message)
    return found


def scripted(log=None):
    """A backend that says "hi", and notes whether it was let finish."""

    def execute(plan, request, cancelled):
        yield Started()
        yield Text("hi")
        yield run()
        if log is not None:
            log.append(plan.pairing)

    return execute


def answered(worker, *asks):
    for ask in asks:
        worker._queue.append(ask)
        worker._asks.put(ask)
    worker.serve()


def test_a_worker_ends_when_it_was_idle_for_as_long_as_the_last_plan_says(tmp_path):
    worker = server.Worker(scripted())
    ask = asked(planned(tmp_path))
    start = time.monotonic()
    answered(worker, ask)
    assert time.monotonic() - start >= 0.2
    assert [message.get("event") for message in outbox(ask)] == ["Started", "Text", "Result"]


def test_the_second_run_of_the_same_weights_loaded_nothing(tmp_path):
    worker = server.Worker(scripted())
    one, two = asked(planned(tmp_path)), asked(planned(tmp_path))
    answered(worker, one, two)
    loads = [outbox(ask)[-1]["phases_ms"]["load"] for ask in (one, two)]
    assert loads == [900.0, 0.0]
    assert worker.status()["requests"] == 2


def test_states_are_kept_only_of_what_llm_logs(tmp_path):
    log: list[str] = []
    worker = server.Worker(scripted(log))
    plans = [planned(tmp_path, pairing=name, keeps_on_disk=name == "yes") for name in ("yes", "no")]
    answered(worker, *map(asked, plans))
    assert log == ["yes"]


def test_an_error_reaches_the_client_and_the_worker_goes_on(tmp_path):
    def execute(plan, request, cancelled):
        raise ZeroDivisionError("by zero")
        yield

    worker = server.Worker(execute)
    one, two = asked(planned(tmp_path)), asked(planned(tmp_path))
    answered(worker, one, two)
    assert [outbox(ask)[0]["text"] for ask in (one, two)] == ["ZeroDivisionError: by zero"] * 2


def test_a_prompt_that_is_given_up_while_it_is_rendered_does_not_end_the_worker(tmp_path):
    def execute(plan, request, cancelled):
        raise KeyboardInterrupt
        yield

    worker = server.Worker(execute)
    answered(worker, asked(planned(tmp_path)), asked(planned(tmp_path)))
    assert worker.status()["requests"] == 2


def test_what_is_done_after_an_answer_goes_on_without_its_reader(tmp_path):
    """Such as measuring costs; the next prompt is not kept waiting by it."""
    seen: list[bool] = []

    def execute(plan, request, cancelled):
        yield Started()
        yield run()
        assert worker._current
        worker._current.cancelled.set()  # as it is when the command ends
        seen.append(cancelled())

    worker = server.Worker(execute)
    first, second = (asked(planned(tmp_path, keeps_on_disk=True)) for _ in range(2))
    answered(worker, first, second)
    assert seen == [True, False]


def test_a_prompt_that_was_given_up_in_the_queue_never_runs(tmp_path):
    log: list[str] = []
    worker = server.Worker(scripted(log))
    first, second = (asked(planned(tmp_path, keeps_on_disk=True)) for _ in range(2))
    worker._queue = [first, second]
    worker._give_up(second)
    assert worker.status()["waiting"] == 1 and outbox(second) == []
    for ask in (first, second):
        worker._asks.put(ask)
    worker.serve()
    assert log == ["qwen"]


def test_who_waits_is_told_how_many_are_before_it(tmp_path):
    worker = server.Worker(scripted())
    first, second = asked(planned(tmp_path)), asked(planned(tmp_path))
    worker._queue = [first, second]
    worker._say_waiting(second)
    assert second.outbox.get_nowait() == {"waiting": 1}
    worker._queue, worker._current = [second], first
    worker._say_waiting(second)
    assert second.outbox.get_nowait() == {"waiting": 1}
    worker._say_waiting(first)
    with pytest.raises(queue.Empty):
        first.outbox.get_nowait()


def hello(**changes):
    return {
        "protocol": 1, "do": "run", "versions": identity.versions(), "holds": {},
        "environment": identity.environment(),
    } | changes  # fmt: skip


def test_another_version_or_other_files_are_not_answered(tmp_path):
    worker = server.Worker(scripted())
    assert worker._unfit(hello()) == ""
    assert worker._unfit(hello(protocol=0)) == "another version is installed"
    assert worker._unfit(hello(versions={"mlx": "9"})) == "another version is installed"
    assert worker._unfit(hello(environment={"MLX_X": "1"})) == "the environment has other settings"
    worker._holds = {"/model": "one"}
    assert worker._unfit(hello(holds={"/model": "one", "/other": "x"})) == ""
    assert worker._unfit(hello(holds={"/model": "two"})) == "the files of a model changed"
    assert worker._unfit({"do": "status"}) == ""
    with pytest.raises(BadMessage):
        worker._unfit(hello(do="fork"))


def test_asking_for_the_status_keeps_nothing_alive(tmp_path):
    worker = server.Worker(scripted())
    worker._keep = 0.3
    serving = threading.Thread(target=worker.serve, daemon=True)
    serving.start()
    end = time.monotonic() + 10
    while serving.is_alive() and time.monotonic() < end:
        assert worker.status()["left_s"] <= 0.3
    assert not serving.is_alive()


def test_files_that_change_while_a_prompt_waits_are_not_answered_from(tmp_path):
    (tmp_path / "weights").write_text("one")
    worker = server.Worker(scripted())
    first, second = asked(planned(tmp_path)), asked(planned(tmp_path))

    def execute(plan, request, cancelled):
        yield Started()
        (tmp_path / "weights").write_text("another")
        yield run()

    worker._execute = execute
    answered(worker, first, second)
    assert outbox(first)[-1]["event"] == "Result"
    assert outbox(second) == [{"stale": "the files of a model changed"}]


def test_what_a_run_that_failed_has_loaded_is_known(tmp_path):
    """Or its weights would answer for files that changed since."""

    def execute(plan, request, cancelled):
        raise ZeroDivisionError
        yield

    worker = server.Worker(execute)
    answered(worker, asked(planned(tmp_path)))
    assert worker.status()["target"] == str(tmp_path)
    assert worker._has_other({str(tmp_path): "another"})


@pytest.fixture
def connected():
    """A worker that serves, a client that asked it, and a way to ask."""
    one, other = socket.socketpair()
    client = Channel(one, patience=5)

    def ask(worker, plan):
        threading.Thread(target=worker.welcome, args=(other,), daemon=True).start()
        client.send(hello())
        assert "stale" not in (client.receive(5) or {})
        client.send({"plan": dataclasses.asdict(plan), "request": dataclasses.asdict(Request())})
        return client

    yield ask
    client.close()


def test_a_worker_that_is_told_to_stop_sends_what_it_has(tmp_path, connected, monkeypatch):
    worker = server.Worker(scripted())

    def execute(plan, request, cancelled):
        yield Started()
        yield Text("x" * (4 << 20))  # more than a socket takes at once
        worker._stopping = True
        yield run()

    worker._execute = execute
    client = connected(worker, planned(tmp_path))
    serving = threading.Thread(target=worker.serve, daemon=True)
    serving.start()
    time.sleep(0.3)
    assert serving.is_alive()
    found = [client.receive(5) for _ in range(4)]
    assert [message.get("event") for message in found] == ["Started", "Text", "Result", None]
    serving.join(5)
    assert not serving.is_alive()


def test_a_slow_reader_gets_the_rest_before_an_idle_worker_ends(tmp_path, connected):
    def execute(plan, request, cancelled):
        yield Started()
        yield Text("x" * (4 << 20))
        yield run()

    worker = server.Worker(execute)
    client = connected(worker, planned(tmp_path, keep_alive=0.1))
    serving = threading.Thread(target=worker.serve, daemon=True)
    serving.start()
    time.sleep(0.6)
    assert serving.is_alive()
    assert [bool(client.receive(5)) for _ in range(4)] == [True] * 4
    serving.join(5)
    assert not serving.is_alive()
