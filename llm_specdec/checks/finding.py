"""What a check reports."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llm_specdec.errors import SpecdecError


@dataclass(frozen=True)
class Finding:
    """level: ok | warning | broken. `fix` is a command, or what to do where none does it."""

    level: str
    what: str
    why: str = ""
    fix: str = ""


Findings = Iterator[Finding]


def examine(check: Callable[[], Findings]) -> Findings:
    """A check's findings; one that fails is a finding too."""
    try:
        yield from check()
    except SpecdecError as error:
        yield Finding("broken", str(error))
