"""Commands that share a worker: the same answers, one process, and no command ever hangs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llm_specdec.backends.resident import control, identity, places, starting
from llm_specdec.engine.hardware import blas
from tests.support import chains
from tests.support.command_line import run_process, specdec, write_registry

HI = ["<|hi|>", "Hello", " you."]
LOOP = ["<|loop|>", "round", " and", " about", ","]
HEAVY = "('mlx', 'mlx_lm', 'transformers', 'tokenizers', 'huggingface_hub')"


@pytest.fixture
def kept(tmp_path):
    """A pairing whose target stays in memory; its workers are ended with the test."""
    template = chains.template({"loop": "<|loop|>"}, "<|hi|>")
    folder = chains.write(tmp_path / "chain", [HI, [*LOOP, LOOP[1]]], template)
    write_registry(
        f'keep_alive = "1m"\n[pairings.chain]\ntarget = "{folder}"\n'
        "[pairings.chain.settings]\ncontext = 100000\n"
    )
    yield folder
    for held in control.workers():
        control.stop(held)


def started(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "llm", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def receipts():
    """Receipts of all turns in llm's log, oldest first."""
    turns = json.loads(run_process("logs", "--json", "-n", "0").stdout or "[]")
    turns.sort(key=lambda turn: turn["id"])
    return [turn["response_json"]["specdec"] for turn in turns]


def only_worker():
    [held] = control.workers()
    return held


def test_the_second_command_finds_everything_in_memory(kept):
    cold, warm = (run_process("-m", "chain", "hi") for _ in range(2))
    assert (cold.exit_code, cold.stdout, cold.stderr) == (0, "Hello you.\n", "")
    assert (warm.exit_code, warm.stdout, warm.stderr) == (0, "Hello you.\n", "")
    one, two = receipts()
    pid = only_worker().status["pid"]
    assert one["worker"]["pid"] == two["worker"]["pid"] == pid != os.getpid()
    assert one["phases_ms"]["load"] > 0 and two["phases_ms"]["load"] == 0
    alone = run_process("-m", "chain", "hi", "-o", "keep_alive", "0")
    *_, three = receipts()
    assert alone.stdout == warm.stdout and "worker" not in three
    assert three["completion_sha256"] == two["completion_sha256"]


def test_commands_at_once_share_one_worker(kept):
    # llm's own first migration does not stand several commands at once.
    run_process("-m", "chain", "hi", "-o", "keep_alive", "0")
    commands = [started("-m", "chain", "hi") for _ in range(6)]
    said = [command.communicate(timeout=120) for command in commands]
    assert said == [(b"Hello you.\n", b"")] * 6
    assert only_worker().status["requests"] == 6
    assert len({receipt["worker"]["pid"] for receipt in receipts()[1:]}) == 1


def test_the_client_loads_nothing_heavy(kept):
    run_process("-m", "chain", "hi")  # so that the worker is there
    program = (
        "import sys, llm.cli\n"
        "try: llm.cli.cli(['-m', 'chain', 'hi'])\n"
        f"finally: print([m for m in sys.modules if m.split('.')[0] in {HEAVY}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.stdout == "Hello you.\n[]\n", done.stderr


def test_ctrl_c_ends_the_answer_and_not_the_worker(kept):
    command = started("-m", "chain", "loop")
    assert command.stdout.read(20).startswith(b"round and about,")
    command.send_signal(signal.SIGINT)
    _, stderr = command.communicate(timeout=20)
    assert (command.returncode, stderr) == (130, b"")
    assert receipts()[-1]["finish_reason"] == "interrupted"
    assert run_process("-m", "chain", "hi").stdout == "Hello you.\n"
    assert len({receipt["worker"]["pid"] for receipt in receipts()}) == 1


def test_a_killed_client_frees_the_worker(kept):
    command = started("-m", "chain", "loop")
    assert command.stdout.read(20)
    command.kill()
    command.communicate(timeout=20)
    assert run_process("-m", "chain", "hi").stdout == "Hello you.\n"


def test_a_worker_that_dies_in_mid_answer_is_said_and_the_next_command_is_fine(kept):
    command = started("-m", "chain", "loop")
    assert command.stdout.read(20)
    os.kill(only_worker().status["pid"], signal.SIGKILL)
    _, stderr = command.communicate(timeout=20)
    assert command.returncode == 1
    assert stderr.decode().strip() == (
        "Error: the resident worker died in the middle of the answer: ask again"
    )
    assert run_process("-m", "chain", "hi").stdout == "Hello you.\n"


def test_files_that_change_are_loaded_again(kept):
    run_process("-m", "chain", "hi")
    before = only_worker().status["pid"]
    os.utime(kept / "config.json", (1, 1))
    assert run_process("-m", "chain", "hi").stdout == "Hello you.\n"
    assert only_worker().status["pid"] != before


def test_another_version_of_the_plugin_has_a_worker_of_its_own(kept):
    run_process("-m", "chain", "hi")
    before = only_worker().status["pid"]
    program = (
        "import llm_specdec; llm_specdec.__version__ = '99'\n"
        "import llm.cli; llm.cli.cli(['-m', 'chain', 'hi'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    # The new worker is of the installed version again, so that no third try can help either.
    assert done.stdout == "Hello you.\n"
    assert "answered without a resident worker" in done.stderr
    assert before not in [held.status.get("pid") for held in control.workers()]


def test_what_llm_does_not_log_is_not_kept(kept):
    run_process("-m", "chain", "hi", "-n")
    assert only_worker().status["entries"] == 0


def test_an_idle_worker_ends_by_itself_and_asking_for_it_does_not_keep_it(kept):
    run_process("-m", "chain", "hi", "-o", "keep_alive", "10m")
    pid = only_worker().status["pid"]
    run_process("-m", "chain", "hi", "-o", "keep_alive", "1s")
    end = time.monotonic() + 60
    while control.workers() and time.monotonic() < end:
        time.sleep(0.1)
    assert control.workers() == [] and control._is_gone(pid, 5)
    assert not list(places.folder().glob("*.sock"))


def test_without_a_private_folder_the_answer_is_made_here(kept):
    folder = places.folder()
    folder.chmod(0o755)
    done = run_process("-m", "chain", "hi")
    folder.chmod(0o700)
    assert (done.exit_code, done.stdout) == (0, "Hello you.\n")
    assert "answered without a resident worker" in done.stderr


def test_ps_and_stop_say_what_is_there(kept):
    assert specdec("ps").stderr == "no models in memory\n"
    run_process("-m", "chain", "hi")
    [row] = json.loads(specdec("ps", "--json").stdout)
    assert row["pairings"] == ["chain"] and row["requests"] == 1 and not row["outdated"]
    assert row["target"] == str(kept)
    heads, line = specdec("ps").stdout.splitlines()
    assert heads.split()[:2] == ["PAIRINGS", "MEMORY"] and line.split()[0] == "chain"
    assert json.loads(specdec("stop", "chain", "--json").stdout)["stopped"] == 1
    assert specdec("stop").stderr == "nothing to stop\n"


def test_keep_sets_what_holds_for_all(kept):
    assert specdec("keep", "10m").exit_code == 0
    assert json.loads(specdec("keep", "--json").stdout) == {"keep_alive": "10m"}
    assert specdec("keep", "0").exit_code == 0
    assert json.loads(specdec("keep", "--json").stdout) == {"keep_alive": "0"}
    refused = specdec("keep", "soon")
    assert refused.exit_code == 2
    assert refused.error == "Error: 'soon' is not a time such as 90s, 10m or 1h, 0, or forever"


def test_doctor_knows_a_worker_that_answers_and_one_that_does_not(kept, monkeypatch):
    run_process("-m", "chain", "hi")
    pid = only_worker().status["pid"]
    assert "in memory: chain, " in specdec("doctor").stdout
    monkeypatch.setattr(starting, "GREETING", 0.5)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert "a resident worker does not answer at " in specdec("doctor").stdout
    finally:
        os.kill(pid, signal.SIGCONT)


def test_doctor_knows_a_worker_of_an_older_version(kept, monkeypatch):
    run_process("-m", "chain", "hi")
    monkeypatch.setattr(identity, "versions", lambda: {"mlx": "99"})
    only_worker().place.socket.chmod(0o666)
    said = specdec("doctor").stdout
    assert "the resident worker of chain is of an older version" in said
    assert "has the permissions of a file for others" in said and "chmod 600" in said


def test_a_stuck_worker_is_said_and_stop_ends_it(kept, monkeypatch):
    """It is not left behind with its memory where nobody finds it."""
    run_process("-m", "chain", "hi")
    pid = only_worker().pid
    os.kill(pid, signal.SIGSTOP)
    done = run_process("-m", "chain", "hi")
    assert (done.exit_code, done.stdout) == (0, "Hello you.\n")
    assert f"process {pid} has its socket and does not answer" in done.stderr
    monkeypatch.setattr(starting, "GREETING", 0.5)
    [row] = json.loads(specdec("ps", "--json").stdout)
    assert (row["pid"], row["answers"]) == (pid, False) and row["bytes"] > 0
    assert "does not answer" in specdec("ps").stdout
    assert specdec("stop").exit_code == 0
    assert control._is_gone(pid, 5) and control.workers() == []


def test_stop_in_mid_answer_ends_it_as_ctrl_c_does(kept):
    command = started("-m", "chain", "loop")
    assert command.stdout.read(20)
    assert specdec("stop", "chain").exit_code == 0
    _, stderr = command.communicate(timeout=20)
    assert (command.returncode, stderr) == (0, b"")
    assert receipts()[-1]["finish_reason"] == "interrupted"


def test_a_user_folder_named_from_the_working_directory_is_the_workers_too(kept, monkeypatch):
    user = Path(os.environ["LLM_USER_PATH"])
    monkeypatch.chdir(user.parent)
    monkeypatch.setenv("LLM_USER_PATH", user.name)
    done = run_process("-m", "chain", "hi")
    assert (done.stdout, done.stderr) == ("Hello you.\n", "")
    monkeypatch.setenv("LLM_USER_PATH", str(user))
    assert only_worker().status["requests"] == 1


def test_a_worker_of_another_environment_makes_way(kept, monkeypatch):
    run_process("-m", "chain", "hi")
    before = only_worker().pid
    monkeypatch.setenv(blas.VARIABLE, "off")
    done = run_process("-m", "chain", "hi")
    assert (done.stdout, done.stderr) == ("Hello you.\n", "")
    assert only_worker().pid != before
