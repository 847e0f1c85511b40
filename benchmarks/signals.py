"""Interrupt `llm` in a terminal at random moments, and count how it ends.

    python -m benchmarks.signals --trials 200

Each trial starts a command in a terminal of its own, sends it one to six signals from a random
moment of its life on, and waits for its end. Ctrl-C is typed, SIGHUP comes when the terminal
closes, SIGTERM from outside. Moments from before the plugin is imported are counted apart:
there Python itself says what it says.
"""

import argparse
import contextlib
import os
import pty
import random
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks import harness

LATE = 3.0  # seconds from the last signal; on an idle machine one is enough
CRASHED = {128 + signal.SIGABRT, 128 + signal.SIGSEGV, -signal.SIGABRT, -signal.SIGSEGV}
CTRL_C = "\x03"
PROMPT = "Explain what a rainbow is."
# The command → what is typed once it asks, if it asks.
COMMANDS = {
    "answer": (f"-m smol '{PROMPT}' -o max_tokens 150", ""),
    "long prompt": (f"-m smol '{'tell me ' * 350}' -o max_tokens 20", ""),
    "seeded": ("-m smol 'Say hi.' -o seed 1", ""),
    "chat": ("chat -m smol -o max_tokens 60", f"{PROMPT}\nAnd a mirage?\nexit\n"),
    "list": ("specdec list", ""),
    "bench": (
        "specdec bench smol --against look --no-gate --runs 1 --context 64 --class code "
        "--max-tokens 8",
        "",
    ),
}


@dataclass
class Terminal:
    """A command in a terminal of its own, whose output is read as it comes."""

    command: str
    typed: str
    environment: dict[str, str]
    said: bytearray = field(default_factory=bytearray)
    closed: bool = False

    def __post_init__(self) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(signum, signal.SIG_DFL)  # as a shell's terminal has it
            python = sys.executable
            words = [python, "-m", "llm", *shlex.split(self.command)]
            os.execve(python, words, self.environment)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.write(self.typed)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # at the end of the command
            while not self.closed:
                if select.select([self.fd], [], [], 0.02)[0]:
                    self.said += os.read(self.fd, 65536)

    def write(self, typed: str) -> None:
        if not self.closed:
            os.write(self.fd, typed.encode())

    def signal(self, signum: int) -> None:
        """As it comes to a user: typed, by closing the terminal, or from another process."""
        if signum == signal.SIGINT:
            self.write(CTRL_C)
        elif signum == signal.SIGHUP:
            self.close()
        else:
            os.kill(self.pid, signum)

    def ended(self, patience: float) -> int | None:
        """Its exit status, negative for a signal that killed it; None where it goes on."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        return None

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.reader.join()
            os.close(self.fd)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chosen, seen = random.Random(asked.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LLM_USER_PATH": folder, "LLM_RAISE_ERRORS": ""}
        target = str(harness.models() / "smollm2")
        _llm(["specdec", "add", "smol", "--target", target], environment)
        _llm(["specdec", "add", "look", "--target", target, "--drafter", "lookup"], environment)
        lives = {name: _life(name, environment) for name in COMMANDS}
        for number in range(asked.trials):
            name = list(COMMANDS)[number % len(COMMANDS)]
            moment = chosen.uniform(0.02, lives[name] + 0.2)
            what = _trial(name, moment, chosen, environment)
            seen[what] += 1
            line = f"{number + 1}/{asked.trials} {name} at {moment:.2f} of {lives[name]:.2f} s"
            print(f"{line}: {what}", file=sys.stderr, flush=True)
        whole = _llm(["logs", "list", "-n", "1"], environment).returncode == 0
    for what, count in sorted(seen.items()):
        print(f"{count:5}  {what}")
    print(f"the log can be read afterwards: {whole}")
    bad = [what for what in seen if what.startswith(("crash", "late", "traceback"))]
    raise SystemExit(1 if bad or not whole else 0)


def _llm(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "llm", *words]
    return subprocess.run(command, env=environment, capture_output=True, stdin=subprocess.DEVNULL)


def _life(name: str, environment: dict[str, str]) -> float:
    """Seconds that a command takes which nobody interrupts; the second run, so that what is
    measured once has been."""
    for _ in range(2):
        start = time.monotonic()
        terminal = Terminal(*COMMANDS[name], environment)
        status = terminal.ended(120)
        terminal.close()
        if status != 0:
            said = terminal.said.decode(errors="replace")
            raise SystemExit(f"{name} does not work here (status {status}): {said}")
        life = time.monotonic() - start
    return life


def _trial(name: str, moment: float, chosen: random.Random, environment: dict[str, str]) -> str:
    terminal = Terminal(*COMMANDS[name], environment)
    time.sleep(moment)
    signum = chosen.choice([signal.SIGINT] * 4 + [signal.SIGHUP, signal.SIGTERM])
    for _ in range(chosen.randint(1, 6)):
        terminal.signal(signum)
        time.sleep(chosen.uniform(0.0, 0.2))
    start = time.monotonic()
    if name == "chat" and signum == signal.SIGINT:
        terminal.write("\nexit\n")  # the first Ctrl-C ends an answer, and not the chat
    status = terminal.ended(60)
    waited = time.monotonic() - start
    if status is None:
        os.kill(terminal.pid, signal.SIGKILL)
        os.waitpid(terminal.pid, 0)
    terminal.close()
    text = terminal.said.decode(errors="replace")
    if status is None:
        return f"late: had to be killed; it said {text[-300:]!r}"
    if status in CRASHED or "terminate called" in text:
        return f"crash: status {status}"
    if waited > LATE:
        return f"late: {waited:.0f} s, status {status}"
    if "Traceback" in text:
        ours = f"{os.sep}llm_specdec{os.sep}" in text
        if ours:
            print(text, file=sys.stderr)
        return "traceback of ours" if ours else "Python's own traceback, before llm runs"
    return f"status {status}"


if __name__ == "__main__":
    main()
