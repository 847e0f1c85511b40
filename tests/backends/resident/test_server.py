"""The worker's own decisions, without a process: queue, idle time, who may be answered."""

import queue
import threading
import time
from typing import Any

import pytest

from llm_specdec.backends import Plan, Request, Started, Text
from llm_specdec.backends.resident import identity, server
from llm_specdec.backends.resident.wire import BadMessage
from llm_specdec.receipts import Lane
from tests.support.receipts import run


def planned(tmp_path, **changes):
    fields: dict[str, Any] = {
        "model_id": "qwen", "pairing": "qwen", "profile": None, "lane": Lane("none", "off"),
        "target": str(tmp_path), "drafter": None, "drafter_bits": None,
        "drafter_group_size": None, "reads": "", "settings": {}, "sources": {},
        "deviations": (), "seed": 1, "keep_alive": 0.2,
    }  # fmt: skip
    return Plan(**fields | changes)


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


def test_a_prompt_that_was_given_up_in_the_queue_never_runs(tmp_path):
    log: list[str] = []
    worker = server.Worker(scripted(log))
    ask = asked(planned(tmp_path, keeps_on_disk=True))
    ask.cancelled.set()
    answered(worker, ask)
    assert log == [] and outbox(ask) == []


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
