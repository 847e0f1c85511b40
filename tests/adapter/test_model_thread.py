"""One thread for all jobs: in order, whatever their readers do."""

import gc
import subprocess
import sys
import threading
import time

import pytest

from llm_specdec.adapter import model_thread
from llm_specdec.adapter.model_thread import Reading


def counting(upto, log=None):
    def work(job):
        try:
            for number in range(upto):
                if job.cancelled:
                    return
                yield number
        finally:
            if log is not None:
                log.append("closed")

    return work


def on_thread(job):
    yield threading.get_ident()


def test_every_job_runs_on_the_same_other_thread():
    found: set[int] = set()
    readers = [
        threading.Thread(target=lambda: found.update(Reading(on_thread).items())) for _ in range(4)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    found.update(Reading(on_thread).items())
    assert len(found) == 1
    assert found != {threading.get_ident()}


def test_a_reader_that_stopped_halfway_blocks_nobody():
    first = Reading(counting(5)).items()
    assert next(first) == 0
    assert list(Reading(counting(3)).items()) == [0, 1, 2]  # in the same thread
    assert list(first) == [1, 2, 3, 4]


def test_an_error_reaches_the_reader_after_the_items_before_it():
    def failing(job):
        yield "one"
        raise ValueError("two")

    items = Reading(failing).items()
    assert next(items) == "one"
    with pytest.raises(ValueError, match="two"):
        next(items)
    assert list(Reading(counting(1)).items()) == [0]  # and the worker goes on


def test_an_abandoned_job_is_cancelled_and_closed():
    log: list[str] = []
    going = threading.Event()

    def endless(job):
        try:
            while not job.cancelled:
                going.set()
                time.sleep(0.001)
                yield 0
        finally:
            log.append("closed")

    items = Reading(endless).items()
    next(items)
    assert going.wait(5)
    del items
    gc.collect()
    assert list(Reading(counting(2)).items()) == [0, 1]  # which comes after it
    assert log == ["closed"]


def test_a_job_cancelled_in_the_queue_never_starts():
    log: list[str] = []
    holding = threading.Event()

    def held(job):
        holding.wait(5)
        yield 0

    first, second = Reading(held), Reading(counting(3, log))
    second.job.cancel()
    holding.set()
    assert list(first.items()) == [0]
    assert list(second.items()) == []
    assert log == []


def test_a_reader_that_cannot_take_items_ends_the_job_only():
    def refuse(item):
        raise RuntimeError("Event loop is closed")

    log: list[str] = []
    model_thread.submit(counting(3, log), refuse)
    assert list(Reading(counting(1)).items()) == [0]
    assert log == ["closed"]


def test_the_process_ends_while_a_job_runs():
    program = """
import time
from llm_specdec.adapter.model_thread import Reading
def endless(job):
    while not job.cancelled:
        time.sleep(0.01)
        yield 0
next(items := Reading(endless).items())
print("read", flush=True)
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "read\n", "")


STUCK = """
import sys, time
from llm_specdec.adapter.model_thread import Reading
def stuck(job):
    yield 0
    time.sleep(60)  # a round that looks at nothing
next(items := Reading(stuck).items())
print("read", flush=True)
"""


def test_the_end_of_the_process_does_not_wait_for_a_stuck_round():
    run = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=20)
    assert (run.returncode, run.stdout, run.stderr) == (130, "read\n", "")


AFTERWARDS = """
import time
from llm_specdec.adapter.model_thread import Reading
def work(job):
    yield 0
    def finish():
        time.sleep(0.5)
        print("cancelled" if job.cancelled else "done", flush=True)
    job.afterwards = finish
print(list(Reading(work).items()), flush=True)
"""


def test_the_end_of_the_process_waits_for_what_comes_after_an_answer():
    """Both the reader and the end used to cancel it, and no command ever measured costs."""
    run = subprocess.run(
        [sys.executable, "-c", AFTERWARDS], capture_output=True, text=True, timeout=20
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "[0]\ndone\n", "")


FORKED = """
import os
from llm_specdec.adapter.model_thread import Reading
from llm_specdec.errors import ResourceError
def one(job):
    yield 1
assert list(Reading(one).items()) == [1]
if os.fork() == 0:
    try:
        list(Reading(one).items())
    except ResourceError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


def test_a_fork_of_a_process_that_ran_a_model_is_told_to_spawn():
    """It used to wait for ever: threads do not come along."""
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=20)
    assert run.stdout.endswith("start processes with multiprocessing's method spawn\n")
    assert run.stderr == ""


def test_a_reader_that_ends_soon_does_not_wait_for_a_stuck_round():
    going = threading.Event()

    def work(job):
        yield "word"
        going.wait(10)
        yield "late"

    reading = Reading(work)
    items = reading.items()
    assert next(items) == "word"
    reading.end_soon(0.05)
    assert list(items) == []
    going.set()
