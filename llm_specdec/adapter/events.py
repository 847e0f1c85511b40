"""llm's prompts as requests of a backend, its events as llm's."""

import json
from collections.abc import Iterator
from typing import Any

import llm
from llm.parts import StreamEvent, ToolCallPart

from llm_specdec.backends import Event, Plan, Reasoning, Request, Text, ToolCall
from llm_specdec.errors import UsageError
from llm_specdec.prompting import chat


def request_of(prompt: llm.Prompt, plan: Plan) -> Request:
    """Raises UsageError for a system prompt that the plan forbids, and for bytes that are no
    text."""
    system = plan.settings["system"]
    if system == "forbid" and prompt.system:
        raise UsageError(
            f"{plan.model_id} forbids a system prompt (set by {plan.sources['system']}): "
            "leave -s out"
        )
    default = None if system in ("allow", "forbid") else system
    schema: Any = prompt.schema  # llm has made a dict of a class
    parts = [part for message in prompt.messages for part in message.parts]
    return Request(
        messages=chat.messages_for(prompt, default),
        tools=chat.tools_for(prompt),
        schema=schema,
        earlier_calls=sum(isinstance(part, ToolCallPart) for part in parts),
    )


def as_llms(event: Event, response: Any) -> Iterator[StreamEvent]:
    """What llm is told of a piece of the answer; tool calls are added to `response` too."""
    match event:
        case Text(text):
            yield StreamEvent("text", text)
        case Reasoning(text):
            yield StreamEvent("reasoning", text)
        case ToolCall(name, arguments, call_id):
            yield StreamEvent("tool_call_name", name, tool_call_id=call_id)
            yield StreamEvent("tool_call_args", arguments, tool_call_id=call_id)
            response.add_tool_call(llm.ToolCall(name, json.loads(arguments), call_id))
