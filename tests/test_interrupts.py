"""Ctrl-C is raised inside the generator, also when it came while its consumer worked."""

import os
import signal

import pytest

from llm_specdec.interrupts import interruptible


def answering(log):
    try:
        yield from ("one ", "two ", "three ")
    except KeyboardInterrupt:
        log.append("caught")
        yield "(rest)"
    finally:
        log.append("closed")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_between_two_pieces_reaches_the_generator():
    log: list[str] = []
    said = []
    for word in interruptible(answering(log)):
        said.append(word)
        if word == "one ":
            interrupt()
    assert said == ["one ", "(rest)"]
    assert log == ["caught", "closed"]


def test_an_interrupt_inside_the_generator_is_raised_there():
    log: list[str] = []

    def chunks():
        try:
            yield "one "
            interrupt()
            yield "never"
        except KeyboardInterrupt:
            log.append("caught")

    assert list(interruptible(chunks())) == ["one "]
    assert log == ["caught"]


def test_a_generator_with_nothing_to_add_just_ends():
    def chunks():
        try:
            yield "one "
            yield "two "
        except KeyboardInterrupt:
            return

    said = []
    for word in interruptible(chunks()):
        said.append(word)
        interrupt()
    assert said == ["one "]


def test_a_second_interrupt_is_not_held_back():
    with pytest.raises(KeyboardInterrupt):
        for _ in interruptible(answering([])):
            interrupt()
            interrupt()


def test_the_handler_is_restored():
    list(interruptible(answering([])))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    stream = interruptible(answering([]))
    next(stream)
    del stream
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
