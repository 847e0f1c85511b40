"""Waiting for a server, from a thread without an event loop, `cancelled` looked at meanwhile."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

TICK = 0.05  # seconds between two looks at `cancelled`

Value = TypeVar("Value")


class Cancelled(Exception):
    pass


class Waiting:
    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._loop, self._cancelled = asyncio.new_event_loop(), cancelled

    def result(self, work: Coroutine[Any, Any, Value], seconds: float) -> Value:
        """What the work comes to. Raises Cancelled, TimeoutError; the work is then ended."""
        task, deadline = self._loop.create_task(work), time.monotonic() + seconds
        try:
            while not task.done():
                if self._cancelled():
                    raise Cancelled
                if time.monotonic() > deadline:
                    raise TimeoutError
                self._loop.run_until_complete(asyncio.wait({task}, timeout=TICK))
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                self._loop.run_until_complete(asyncio.wait({task}))

    def end(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that is done in any case."""
        self._loop.run_until_complete(work)

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
