"""Notices of a backend, shown on stderr."""

from collections.abc import Callable, Generator
from typing import TypeVar

from llm_specdec.backends.events import Notice
from llm_specdec.console import notices

Value = TypeVar("Value")


def show(notice: Notice, tell: Callable[[str], None] = lambda text: None) -> None:
    """A warning as such; `tell` shows progress."""
    (notices.warn if notice.level == "warning" else tell)(notice.text)


def shown(
    steps: Generator[Notice, None, Value], tell: Callable[[str], None] = lambda text: None
) -> Value:
    """What the steps come to, their notices shown meanwhile."""
    while True:
        try:
            show(next(steps), tell)
        except StopIteration as end:
            value: Value = end.value
            return value
