"""What a resident worker saves, and what it holds: `python -m benchmarks.resident [PART ...]`.

    python -m benchmarks.resident                        # every part, some 15 minutes
    python -m benchmarks.resident oneshot prompt decode  # the times alone

Commands are run as a user runs them, each in a process of its own, with a log and a registry of
their own. What is compared takes turns in one run. One table at the end has all figures.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import llm
import psutil

from benchmarks import harness

ECHO = """
import llm

class Echo(llm.Model):
    model_id = "echo"

    class Options(llm.Options):
        max_tokens: int = 1

    def execute(self, prompt, stream, response, conversation):
        yield "hi"

@llm.hookimpl
def register_models(register):
    register(Echo())
"""
METADATA = "Metadata-Version: 2.1\nName: echo-plugin\nVersion: 0\n"
ENTRY_POINTS = "[llm]\necho = echo_plugin\n"
LONG = "\n".join(f"{i}. The {i}th line of this text tells of line {i + 1}." for i in range(120))


class Row(NamedTuple):
    """A figure, what it should be, and whether it is; None where nothing is asked of it."""

    what: str
    figure: str
    wanted: str = ""
    met: bool | None = None


class Shell:
    """A user folder with the pairing `smol`, and llm commands in it."""

    def __init__(self, folder: Path) -> None:
        plugins = folder / "plugins"
        info = plugins / "echo_plugin-0.dist-info"
        info.mkdir(parents=True)
        (plugins / "echo_plugin.py").write_text(ECHO)
        (info / "METADATA").write_text(METADATA)
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        paths = [str(plugins), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {
            **os.environ,
            "LLM_USER_PATH": str(folder / "user"),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        os.environ["LLM_USER_PATH"] = str(folder / "user")
        self.llm("specdec", "add", "smol", "--target", str(harness.models() / "smollm2"))
        self.llm("-m", "echo", "hi")  # llm makes its tables

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "llm", *words]
        return subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def llm(self, *words: str) -> str:
        process = self.start(*words)
        said, error = process.communicate(timeout=300)
        if process.returncode:
            raise SystemExit(f"llm {' '.join(words)[:80]} failed: {error}")
        return said

    def wall(self, *words: str) -> float:
        """Milliseconds of a command."""
        start = time.perf_counter()
        self.llm(*words)
        return (time.perf_counter() - start) * 1e3

    def keep(self, keep_alive: str) -> None:
        self.llm("specdec", "keep", keep_alive)

    def stop(self) -> None:
        self.llm("specdec", "stop")

    def receipt(self) -> dict[str, Any]:
        """Of the last answer."""
        (found,) = json.loads(self.llm("specdec", "logs", "-n", "1", "--json"))
        return dict(found["specdec"])

    def workers(self) -> list[dict[str, Any]]:
        return list(json.loads(self.llm("specdec", "ps", "--json")))

    def worker(self) -> psutil.Process:
        (found,) = self.workers()
        return psutil.Process(found["pid"])


def oneshot(shell: Shell) -> Iterator[Row]:
    """Wall time of a one-token answer: warm, cold, and by a plugin that prints a word."""
    hi = ["hi", "-o", "max_tokens", "1"]
    commands = {
        "version": ["--version"],
        "echo": ["-m", "echo", *hi],
        "warm": ["-m", "smol", *hi],
        "cold": ["-m", "smol", *hi, "-o", "keep_alive", "0"],
    }
    shell.keep("10m")
    for words in commands.values():
        shell.llm(*words)
    rounds = [{name: shell.wall(*words) for name, words in commands.items()} for _ in range(15)]
    for name in commands:
        yield Row(f"{name}, ms", f"{statistics.median(one[name] for one in rounds):.0f}")
    shell.llm(*commands["warm"])
    inside = shell.receipt()["wall_ms"]
    yield Row("of warm, the model's own, ms", f"{inside:.0f}")
    yield _most("warm ÷ echo", [one["warm"] / one["echo"] for one in rounds], 1.25)
    without = [(one["warm"] - inside) / one["echo"] for one in rounds]
    yield _most("warm without the model ÷ echo", without, 1.25)
    yield _most("warm ÷ cold", [one["warm"] / one["cold"] for one in rounds], 0.4)
    yield Row(*_most("echo ÷ cold", [one["echo"] / one["cold"] for one in rounds], 0.4)[:2])


def prompt(shell: Shell) -> Iterator[Row]:
    """Time to the first token of a prompt that the worker knows, asked from new commands, against
    that of one process which asks it again and again."""
    shell.keep("10m")
    long = ["-m", "smol", LONG, "-o", "max_tokens", "2"]
    model = llm.get_model("smol")
    commanded, inside = [], []
    for turn in range(9):
        shell.llm(*long)
        receipt = shell.receipt()
        response = model.prompt(LONG, max_tokens=2, keep_alive="0")
        response.text()
        if turn:  # the first is read, and not restored
            commanded.append(receipt["ttft_ms"])
            inside.append(_receipt(response)["ttft_ms"])
    tokens = receipt["tokens"]
    yield Row("prompt, tokens (cached)", f"{tokens['prompt']} ({tokens['cached']})")
    yield Row("first token in the process, ms", f"{statistics.median(inside):.1f}")
    ratios = [a / b for a, b in zip(commanded, inside, strict=True)]
    yield _most("first token, command ÷ process", ratios, 1.2)


def decode(shell: Shell) -> Iterator[Row]:
    """Decode rate by the worker and by commands on their own, in turn. Each time the weights are
    loaded anew: where in memory they lie makes a difference of some percent."""
    shell.keep("10m")
    words = ["-m", "smol", "Explain what a rainbow is.", "-o", "max_tokens", "100"]
    rates: dict[str, list[float]] = {"10m": [], "0": []}
    for turn in range(14):
        for keep_alive in list(rates)[:: -1 if turn % 2 else 1]:
            shell.stop()
            shell.llm(*words, "-o", "keep_alive", keep_alive)
            if turn:  # after the first one costs are measured
                rates[keep_alive].append(shell.receipt()["rates"]["decode_tps"])
    yield Row("decode rate of a command on its own", f"{statistics.median(rates['0']):.1f} tok/s")
    ratio = statistics.median(rates["10m"]) / statistics.median(rates["0"])
    yield _least("decode rate, worker ÷ process", [ratio], 0.99)
    ratios = [a / b for a, b in zip(rates["10m"], rates["0"], strict=True)]
    yield Row("the same, turn by turn", _said(ratios))


def idle(shell: Shell) -> Iterator[Row]:
    """CPU time that a worker takes while nobody asks it anything."""
    shell.keep("10m")
    shell.llm("-m", "smol", "hi", "-o", "max_tokens", "1")
    process = shell.worker()
    time.sleep(2)
    before, switches = process.cpu_times(), process.num_ctx_switches()
    time.sleep(20)
    after, switched = process.cpu_times(), process.num_ctx_switches()
    used = round(abs(after.user + after.system - before.user - before.system), 2)
    woken = switched.voluntary - switches.voluntary
    yield Row("CPU of an idle worker in 20 s, s", f"{used:.2f}", "0", used == 0)
    yield Row("times that it woke up", f"{woken}", "0", woken == 0)


def memory(shell: Shell) -> Iterator[Row]:
    """Memory of the worker over 500 prompts."""
    shell.keep("10m")
    model = llm.get_model("smol")
    held: dict[int, int] = {}
    for number in range(1, 501):
        question = f"What is {number} + {number % 7}? " + "Think. " * (number % 40)
        model.prompt(question, max_tokens=4, keep_alive="10m").text()
        if number in (10, 100, 250, 500):
            held[number] = shell.worker().memory_info().rss
    for number, size in held.items():
        yield Row(f"memory after prompt {number}, MB", f"{size / 1e6:.0f}")
    yield _most("memory after 500 ÷ after 10", [held[500] / held[10]], 1.02)


def together(shell: Shell) -> Iterator[Row]:
    """Twenty commands at once, and no worker yet."""
    questions = [f"Name {number} animals." for number in range(2, 22)]
    words = [["-m", "smol", one, "-o", "max_tokens", "12", "-n"] for one in questions]
    shell.keep("0")
    expected = [shell.llm(*one) for one in words]
    shell.keep("10m")
    shell.stop()
    processes = [shell.start(*one) for one in words]
    said = [process.communicate(timeout=300) for process in processes]
    same = sum(a == b for (a, _), b in zip(said, expected, strict=True))
    found = shell.workers()
    noise = {line for _, error in said for line in error.splitlines()}
    yield Row("20 at once: answers as serially", f"{same}", "20", same == 20)
    yield Row("20 at once: workers", f"{len(found)}", "1", len(found) == 1)
    yield Row("20 at once: lines on stderr", "; ".join(sorted(noise)) or "none", "none", not noise)


def kills(shell: Shell) -> Iterator[Row]:
    """A hundred times, a client or the worker is killed at a random moment."""
    shell.keep("10m")
    chosen = random.Random(0)
    seen: dict[str, int] = {}
    for _ in range(100):
        process = shell.start("-m", "smol", "Explain what a rainbow is.", "-o", "max_tokens", "60")
        time.sleep(chosen.uniform(0.1, 2.0))
        victim = chosen.choice(["client", "worker"])
        if victim == "client":
            process.kill()
        else:
            for one in shell.workers():
                os.kill(one["pid"], signal.SIGKILL)
        try:
            _, error = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            error = "hang"
        said = error.strip().splitlines()[-1:] or [f"status {process.returncode}"]
        key = f"{victim} killed: {said[0]}"
        seen[key] = seen.get(key, 0) + 1
        if not shell.llm("-m", "smol", "hi", "-o", "max_tokens", "2").strip():
            raise SystemExit("the next command said nothing")
    for what, count in sorted(seen.items()):
        yield Row(what, f"{count}")
    hangs = sum(count for what, count in seen.items() if what.endswith("hang"))
    yield Row("100 kills: hangs", f"{hangs}", "0", hangs == 0)
    found = {one["pid"] for one in shell.workers()}
    orphans = _servers(shell) - found
    yield Row("100 kills: workers that nobody can reach", f"{len(orphans)}", "0", not orphans)
    broken = _log_problems(shell)
    yield Row("100 kills: llm's log", broken, "ok", broken == "ok")


def _servers(shell: Shell) -> set[int]:
    """Processes that serve sockets of this user folder."""
    server = "llm_specdec.backends.resident.server"
    found = psutil.process_iter(["cmdline", "environ"])
    user = shell.environment["LLM_USER_PATH"]
    return {
        process.pid
        for process in found
        if server in (process.info["cmdline"] or [])
        and (process.info["environ"] or {}).get("LLM_USER_PATH") == user
    }


def _log_problems(shell: Shell) -> str:
    with contextlib.closing(sqlite3.connect(shell.llm("logs", "path").strip())) as log:
        ((said,),) = log.execute("pragma integrity_check").fetchall()
    return str(said)


def _receipt(response: llm.Response) -> dict[str, Any]:
    return dict((response.response_json or {})["specdec"])


def _most(what: str, ratios: list[float], limit: float) -> Row:
    return Row(what, _said(ratios), f"at most {limit}", statistics.median(ratios) <= limit)


def _least(what: str, ratios: list[float], limit: float) -> Row:
    return Row(what, _said(ratios), f"at least {limit}", statistics.median(ratios) >= limit)


def _said(ratios: list[float]) -> str:
    middle = f"{statistics.median(ratios):.3f}"
    return f"{middle} ({min(ratios):.3f} to {max(ratios):.3f})" if len(ratios) > 1 else middle


PARTS: dict[str, Callable[[Shell], Iterator[Row]]] = {
    part.__name__: part for part in (oneshot, prompt, decode, idle, memory, together, kills)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", default=[*PARTS], metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(Path(folder))
        try:
            for name in asked.parts:
                print(f"{name}: {PARTS[name].__doc__}", file=sys.stderr, flush=True)
                rows += PARTS[name](shell)
        finally:
            shell.stop()
    print("| figure | measured | wanted | |\n|---|---|---|---|")
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row.met]
        print(f"| {row.what} | {row.figure} | {row.wanted} | {met} |")


if __name__ == "__main__":
    main()
