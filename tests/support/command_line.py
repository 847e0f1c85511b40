"""llm's command line, as a shell user meets it.

Every test has a user folder of its own (`llm_user` in conftest.py): nothing here reaches the
developer's.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from llm.cli import cli

from llm_specdec.pairings import registry

LLM = [sys.executable, "-m", "llm"]

Argument = str | int | PathLike[str]


@dataclass(frozen=True)
class Done:
    """What a command said, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def printed(self) -> str:
        """What a command that succeeded wrote on stdout."""
        assert self.exit_code == 0, self
        return self.stdout

    @property
    def error(self) -> str:
        """The one line on stderr. Click may put three lines of usage above it."""
        *above, line = self.stderr.splitlines()
        assert not above or (len(above) == 3 and above[0].startswith("Usage: ")), self.stderr
        return line


def run(*arguments: Argument, stdin: str = "") -> Done:
    """An llm command in this process. An exception that no command caught fails the test."""
    done = CliRunner().invoke(cli, [*map(str, arguments)], input=stdin, catch_exceptions=False)
    return _without_traceback(Done(done.exit_code, done.stdout, done.stderr))


def specdec(*arguments: Argument) -> Done:
    return run("specdec", *arguments)


def run_process(*arguments: Argument, stdin: bytes = b"") -> Done:
    """An llm command in a process of its own."""
    done = subprocess.run([*LLM, *map(str, arguments)], input=stdin, capture_output=True)
    return _without_traceback(Done(done.returncode, done.stdout.decode(), done.stderr.decode()))


def _without_traceback(done: Done) -> Done:
    assert "Traceback" not in done.stderr, done.stderr
    return done


def logged_turns() -> list[dict[str, Any]]:
    """What `llm logs` says of every turn, oldest first."""
    turns = json.loads(run("logs", "--json", "-n", "0").printed or "[]")
    return sorted(turns, key=lambda turn: turn["id"])


def write_registry(text: str) -> Path:
    """Make `text` the registry file of the test's user folder."""
    path = registry.default_path()
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path
