"""Ctrl-C, a closed terminal and a closed pipe while an answer is made, whenever they come.

llm logs nothing when KeyboardInterrupt reaches it. So for as long as an answer is made, the
first signal only asks for its end: what was said is kept and logged, and the process then ends
with 128 + the signal's number, as a shell expects. Where there is nothing to keep yet it is the
KeyboardInterrupt that it always is, but in `llm chat`, where an answer ends and the chat goes
on; so it is the second time. Nobody waits longer than PATIENCE for a round that takes its time.

A reader that went away (`llm … | head`) would make llm print `Error: [Errno 32] Broken pipe`.
While llm's command line prints, it ends the process instead, quietly, as it ends any other
program in a pipeline; llm logs nothing in either case.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import click

from llm_specdec.adapter.model_thread import Reading
from llm_specdec.adapter.options import llm_command

PATIENCE = 0.7  # seconds

_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}


def interruptible(reading: Reading) -> Iterator[Any]:
    """The items of a job, which ends with the first signal.

    Only where Python's own handlers are in place, on the main thread; elsewhere nothing changes.
    """
    on_main = threading.current_thread() is threading.main_thread()
    command = llm_command() if on_main else None
    with _handlers(reading, command) if on_main else contextlib.nullcontext():
        try:
            for item in reading.items():
                with _closed_pipe_ends_quietly(command):
                    yield item
        finally:
            reading.job.cancel()
    if _is_prompt(command):  # llm prints what did not stream once it has all of it
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


@contextlib.contextmanager
def _handlers(reading: Reading, command: click.Context | None) -> Iterator[None]:
    """Signals end the job, for as long as it runs; only those that nobody else handles."""
    chats = command is not None and command.info_name == "chat"
    taken = [
        signum
        for signum, default in _DEFAULTS.items()
        if signal.getsignal(signum) is default and not (chats and signum == signal.SIGTERM)
    ]

    def handler(signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGHUP:
            if command is not None:
                # The kernel says it, and the shell says it again: once is enough.
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            _detach()
        if reading.job.cancelled or not (reading.job.keeps or chats):
            raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(128 + signum)
        if command is not None and _is_prompt(command):
            command.call_on_close(lambda: _end_with(128 + signum))
        reading.end_soon(PATIENCE)

    for signum in taken:
        signal.signal(signum, handler)
    try:
        yield
    finally:
        for signum in taken:
            if signal.getsignal(signum) is handler:
                signal.signal(signum, _DEFAULTS[signum])


def _detach() -> None:
    """Write into nothing: the terminal is gone, and an error there would keep llm from
    logging."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            os.dup2(nothing, descriptor)
    os.close(nothing)


def _end_with(status: int) -> None:
    raise SystemExit(status)


def _is_prompt(command: click.Context | None) -> bool:
    """Whether llm's command line is asked for one answer."""
    return command is not None and command.info_name == "prompt"


@contextlib.contextmanager
def _closed_pipe_ends_quietly(command: click.Context | None) -> Iterator[None]:
    if command is None:
        yield  # a library user's own pipes are theirs
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)
