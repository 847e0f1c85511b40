"""The first Ctrl-C ends a job and keeps what it said, whenever it comes."""

import os
import signal
import threading
import time

import pytest

from llm_specdec.adapter import interrupts
from llm_specdec.adapter.interrupts import interruptible
from llm_specdec.adapter.model_thread import Reading


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def answering(keeps=True):
    """A job that says "word" until it is cancelled, then "(rest)"."""

    def work(job):
        job.keeps = keeps
        while not job.cancelled:
            time.sleep(0.001)
            yield "word"
        yield "(rest)"

    return Reading(work)


def test_an_interrupt_between_two_pieces_ends_the_job_and_keeps_the_rest():
    said: list[str] = []
    for word in interruptible(answering()):
        if not said:
            interrupt()
        said.append(word)
    assert said[0] == "word" and said[-1] == "(rest)"


def test_an_interrupt_while_the_reader_waits_does_the_same():
    waiting = threading.Event()

    def work(job):
        job.keeps = True
        yield "word"
        waiting.set()
        while not job.cancelled:
            time.sleep(0.001)
        yield "(rest)"

    def later():
        waiting.wait(5)
        interrupt()  # Python handles signals on the main thread, whoever got them

    helper = threading.Thread(target=later)
    helper.start()
    assert list(interruptible(Reading(work))) == ["word", "(rest)"]
    helper.join()


def test_a_second_interrupt_is_raised():
    with pytest.raises(KeyboardInterrupt):
        for _ in interruptible(answering()):
            interrupt()
            interrupt()


def test_with_nothing_to_keep_the_first_one_is_raised():
    reading = answering(keeps=False)
    with pytest.raises(KeyboardInterrupt):
        for _ in interruptible(reading):
            interrupt()
    assert reading.job.cancelled


def test_the_handler_is_restored():
    stream = interruptible(answering())
    next(stream)
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    del stream
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_on_another_thread_the_handler_is_left_alone():
    found = []

    def read():
        stream = interruptible(answering())
        next(stream)
        found.append(signal.getsignal(signal.SIGINT))
        stream.close()  # type: ignore[attr-defined]

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_a_program_of_its_own_can_be_hung_up_again_after_an_answer(monkeypatch):
    """llm's command ends by itself after the first time; what else uses the model goes on."""
    monkeypatch.setattr(interrupts, "_detach", lambda: None)
    said: list[str] = []
    for word in interruptible(answering()):
        if not said:
            os.kill(os.getpid(), signal.SIGHUP)
        said.append(word)
    assert said[-1] == "(rest)"
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
