"""What a resident worker saves, and what it holds: `python -m benchmarks.resident [PART ...]`.

    python -m benchmarks.resident                 # every part, some 15 minutes
    python -m benchmarks.resident oneshot prompt  # the times alone

Commands are run as a user runs them, each in a process of its own, with a log and a registry of
their own. What is compared takes turns in one run.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def oneshot(shell: Shell) -> None:
    """Wall time of a one-token answer: warm, cold, and by a plugin that prints a word."""
    hi = ["hi", "-o", "max_tokens", "1"]
    commands = {
        "echo": ["-m", "echo", *hi],
        "warm": ["-m", "smol", *hi],
        "cold": ["-m", "smol", *hi, "-o", "keep_alive", "0"],
    }
    shell.keep("10m")
    for words in commands.values():
        shell.llm(*words)
    rounds = [{name: shell.wall(*words) for name, words in commands.items()} for _ in range(15)]
    for name in commands:
        print(f"  {name} {statistics.median(one[name] for one in rounds):7.0f} ms")
    shell.llm(*commands["warm"])
    receipt = shell.receipt()
    print(f"  of the warm one, in the worker: {receipt['wall_ms']:.0f} ms")
    _ratio("warm ÷ echo", [one["warm"] / one["echo"] for one in rounds], "at most 1.25")
    _ratio("warm ÷ cold", [one["warm"] / one["cold"] for one in rounds], "at most 0.4")


def prompt(shell: Shell) -> None:
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
    print(f"  {tokens['prompt']} tokens, {tokens['cached']} of them cached")
    print(
        f"  commands {statistics.median(commanded):.1f} ms, inside {statistics.median(inside):.1f}"
    )
    ratios = [a / b for a, b in zip(commanded, inside, strict=True)]
    _ratio("first token, command ÷ process", ratios, "at most 1.2")


def decode(shell: Shell) -> None:
    """Decode rate by the worker and in this process, in turn."""
    shell.keep("10m")
    model = llm.get_model("smol")
    rates: dict[str, list[float]] = {"10m": [], "0": []}
    for turn in range(13):
        for keep_alive in list(rates)[:: -1 if turn % 2 else 1]:
            response = model.prompt(
                "Explain what a rainbow is.", max_tokens=100, keep_alive=keep_alive
            )
            response.text()
            if turn:
                rates[keep_alive].append(_receipt(response)["rates"]["decode_tps"])
    ratios = [a / b for a, b in zip(rates["10m"], rates["0"], strict=True)]
    _ratio("decode rate, worker ÷ in-process", ratios, "at least 0.99")


def idle(shell: Shell) -> None:
    """CPU time that a worker takes while nobody asks it anything."""
    shell.keep("10m")
    shell.llm("-m", "smol", "hi", "-o", "max_tokens", "1")
    process = shell.worker()
    time.sleep(2)
    before, switches = process.cpu_times(), process.num_ctx_switches()
    time.sleep(20)
    after, switched = process.cpu_times(), process.num_ctx_switches()
    used = after.user + after.system - before.user - before.system
    woken = switched.voluntary - switches.voluntary
    print(f"  CPU of an idle worker in 20 s: {used:.2f} s, woken {woken} times")


def memory(shell: Shell) -> None:
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
        print(f"  after prompt {number}: {size / 1e6:.0f} MB, ÷ after 10: {size / held[10]:.3f}")


def together(shell: Shell) -> None:
    """Twenty commands at once, and no worker yet."""
    questions = [f"Name {number} animals." for number in range(2, 22)]
    words = [["-m", "smol", one, "-o", "max_tokens", "12", "-n"] for one in questions]
    shell.keep("0")
    expected = [shell.llm(*one) for one in words]
    shell.keep("10m")
    shell.stop()
    processes = [shell.start(*one) for one in words]
    said = [process.communicate(timeout=300) for process in processes]
    print(f"  equal answers: {sum(a == b for (a, _), b in zip(said, expected, strict=True))} of 20")
    print(f"  workers: {len(shell.workers())}, prompts {shell.workers()[0]['requests']}")
    noise = {line for _, error in said for line in error.splitlines()}
    print(f"  on stderr: {sorted(noise) or 'nothing'}")


def kills(shell: Shell) -> None:
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
        print(f"  {count:3} {what}")
    shell.llm("logs", "list", "-n", "1")
    known = {one["pid"] for one in shell.workers()}
    server = "llm_specdec.backends.resident.server"
    orphans = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if server in (process.info["cmdline"] or []) and process.pid not in known
    ]
    print(f"  workers {len(known)}, orphans {len(orphans)}; the log can be read")


def _receipt(response: llm.Response) -> dict[str, Any]:
    return dict((response.response_json or {})["specdec"])


def _ratio(what: str, ratios: list[float], wanted: str) -> None:
    middle = statistics.median(ratios)
    print(f"  {what}: {middle:.3f} (from {min(ratios):.3f} to {max(ratios):.3f}; {wanted})")


PARTS: dict[str, Callable[[Shell], None]] = {
    part.__name__: part for part in (oneshot, prompt, decode, idle, memory, together, kills)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", default=[*PARTS], metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(Path(folder))
        try:
            for name in asked.parts:
                print(f"{name}: {PARTS[name].__doc__}")
                PARTS[name](shell)
        finally:
            shell.stop()


if __name__ == "__main__":
    main()
