"""Room for weights, where workers that are idle hold it."""

import contextlib
from collections.abc import Callable, Generator

from llm_specdec.backends.events import Event, Started
from llm_specdec.backends.resident import control
from llm_specdec.errors import DoesNotFit


def with_room(
    answered: Callable[[], Generator[Event, None, None]], target: str | None = None
) -> Generator[Event, None, None]:
    """The answer. Where it does not fit, the worker that was idle the longest makes way, and it
    is asked for again. target: whose worker stays. Raises what the answer raises."""
    while True:
        started = False
        try:
            with contextlib.closing(answered()) as events:
                for event in events:
                    started = started or isinstance(event, Started)
                    yield event
            return
        except DoesNotFit as error:
            if started or not control.make_room(error.missing, target):
                raise
