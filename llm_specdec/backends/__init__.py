"""One way to run: `execute(plan, request)` yields events and one result.

planning    a pairing as it will run, in plain data
events      what is asked and what comes back, in plain data
read_ahead  weights on their way from the disk
local       the engine in this process; imported when something runs
resident    a process of its own that keeps weights in memory
served      an engine at an address

A backend is an `execute` of its own beside the one in `local`; the one here chooses by the plan.
"""

from collections.abc import Callable, Iterator

from llm_specdec.backends import read_ahead
from llm_specdec.backends.events import (
    Event,
    Notice,
    Reasoning,
    Request,
    Started,
    Text,
    Tokens,
    ToolCall,
)
from llm_specdec.backends.planning import Plan, lane_of, plan
from llm_specdec.receipts import Result

__all__ = [
    "Event",
    "Notice",
    "Plan",
    "Reasoning",
    "Request",
    "Result",
    "Started",
    "Text",
    "Tokens",
    "ToolCall",
    "execute",
    "lane_of",
    "plan",
]


def execute(
    plan: Plan, request: Request, cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Event]:
    """Run the request as planned: events as they come, `Result` among them once.

    Nothing that belongs to the answer follows the Result. What does follow need not be waited
    for: iterate on once the reader has everything, and states worth keeping are kept, with a
    Notice where that fails. Stop at the Result, and they are not.

    cancelled: asked at least once a round, on the thread that iterates; once it says True the
    run ends within a round, and its Result says "interrupted". Nobody reads on after closing
    the iterator, so that gives no Result.
    Raises SpecdecError: before Started for all that is refused.
    """
    if plan.served:
        from llm_specdec.backends.served import client as server

        return server.execute(plan, request, cancelled)
    if plan.keep_alive != 0:
        from llm_specdec.backends.resident import client

        return client.execute(plan, request, cancelled)
    for folder in filter(None, (plan.target, plan.drafter)):
        read_ahead.begin(folder)
    from llm_specdec.backends import local
    from llm_specdec.backends.resident.room import with_room

    return with_room(lambda: local.execute(plan, request, cancelled))
