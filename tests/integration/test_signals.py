"""Signals to a whole `llm` process: it ends soon, and what was said is logged."""

import os
import random
import signal
import subprocess
import time

import pytest
import sqlite_utils
from llm.migrations import migrate

from tests.support import chains
from tests.support.command_line import LLM, logged_turns, write_registry

LOOP = ["<|loop|>", "round", " and", " about", ","]
SOON = 60  # seconds, on a machine as busy as can be; an idle one takes less than one
# Done, interrupted as llm has it (`Aborted!`), by SIGHUP, by SIGINT, by SIGTERM.
ENDS = {0, 1, 129, 130, 143, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM}


@pytest.fixture
def llm(llm_user, tmp_path):
    """Start an llm command with a model whose answer never ends."""
    chains.write(tmp_path / "chain", [[*LOOP, LOOP[1]]], chains.template({}, "<|loop|>"))
    write_registry(
        f'[pairings.chain]\ntarget = "{tmp_path / "chain"}"\n'
        "[pairings.chain.settings]\ncontext = 200000\n"
    )
    # Interrupted while it makes its log, llm leaves one that it can neither read nor mend.
    migrate(sqlite_utils.Database(llm_user / "logs.db"))
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [*LLM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def answers():
    turns = logged_turns()
    return [(turn["response"], turn["response_json"]["specdec"]["finish_reason"]) for turn in turns]


def end(process):
    """Exit status, once stdout and stderr are read, and what stderr said."""
    _, said = process.communicate(timeout=SOON)
    return process.returncode, said.decode()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_an_answer_that_a_signal_ends_is_logged(llm, signum):
    process = llm("-m", "chain", "go on")
    process.stdin.close()
    process.stdin = None
    assert process.stdout.read(20).startswith(b"round and about,")
    process.send_signal(signum)
    assert end(process) == (128 + signum, "")
    [(text, reason)] = answers()
    assert text.startswith("round and about,round") and reason == "interrupted"


@pytest.mark.parametrize("apart", [0.0, 0.01, 0.05, 0.3])
def test_a_closed_terminal_may_hang_up_twice_and_the_answer_is_logged(llm, apart):
    """The kernel says it, and the shell says it again."""
    process = llm("-m", "chain", "go on")
    process.stdin.close()
    process.stdin = None
    assert process.stdout.read(20).startswith(b"round and about,")
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
        time.sleep(apart)
    assert end(process) == (129, "")
    [(text, reason)] = answers()
    assert text.startswith("round and about,round") and reason == "interrupted"


def test_what_did_not_stream_ends_quietly_in_a_closed_pipe(llm):
    process = llm("-m", "chain", "go on", "--no-stream", "-o", "max_tokens", "8")
    process.stdout.close()
    process.stdout = open(os.devnull, "rb")  # noqa: SIM115, PTH123  closed by communicate
    status, said = end(process)
    assert (status, said) == (-signal.SIGPIPE, "")


def test_signals_at_any_moment_end_the_process_without_a_crash(llm):
    """From before the first import to the exit; `benchmarks.signals` tries many more."""
    chosen = random.Random(7)
    for _ in range(12):
        process = llm("-m", "chain", "go on", "-o", "max_tokens", "20000")
        process.stdin.close()
        process.stdin = None
        time.sleep(chosen.uniform(0.7, 3.0))
        for _ in range(chosen.randint(1, 6)):
            process.send_signal(signal.SIGINT)
            time.sleep(chosen.uniform(0.0, 0.05))
        status, said = end(process)
        assert status in ENDS, said
        assert "terminate called" not in said, said
        # While Python imports llm, before any command of it runs, Python says what it says.
        importing = "in invoke" not in said
        assert importing or "Traceback" not in said, said
