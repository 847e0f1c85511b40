"""Pieces of a model's text → llm's stream events, tool calls read."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import llm
from llm.parts import StreamEvent, ToolCallPart

from llm_specdec.console.notices import warn

if TYPE_CHECKING:
    from llm_specdec.engine.text import Piece
    from llm_specdec.prompting.sections import Sections


class Events:
    """The events of one answer; its tool calls are added to `response` too."""

    def __init__(
        self,
        sections: "Sections",
        tools: list[dict[str, Any]],
        prompt: llm.Prompt,
        response: Any,
    ) -> None:
        self._sections, self._tools, self._response = sections, tools, response
        self._calls = sum(  # of the conversation so far
            isinstance(part, ToolCallPart) for message in prompt.messages for part in message.parts
        )

    def of(self, pieces: Iterable["Piece"]) -> Iterator[StreamEvent]:
        for piece in pieces:
            if piece.section == "tool":
                yield from self._tool(piece)
            else:
                yield StreamEvent(
                    "reasoning" if piece.section == "reasoning" else "text", piece.text
                )

    def _tool(self, piece: "Piece") -> Iterator[StreamEvent]:
        calls = self._read(piece.text)
        if calls is None:  # it is no use to anyone as a call, but it is what the model said
            warn("a tool call could not be read, and is shown as text")
            end = self._sections.tool_end if piece.closed else ""
            yield StreamEvent("text", self._sections.tool_start + piece.text + end)
            return
        for name, arguments, given_id in calls:
            call_id = given_id or self._call_id(name, arguments)
            self._calls += 1
            yield StreamEvent("tool_call_name", name, tool_call_id=call_id)
            yield StreamEvent("tool_call_args", arguments, tool_call_id=call_id)
            self._response.add_tool_call(llm.ToolCall(name, json.loads(arguments), call_id))

    def _read(self, text: str) -> list[tuple[str, str, str | None]] | None:
        """(name, arguments as JSON, id) of each call; None where it cannot be read."""
        assert self._sections.parse is not None
        try:
            found = self._sections.parse(text, self._tools)
            calls = found if isinstance(found, list) else [found]
            return [_plain(call) for call in calls] or None
        except Exception:  # parsers raise what they like
            return None

    def _call_id(self, name: str, arguments: str) -> str:
        """Nine letters and digits, as some templates demand; the same for the same conversation,
        so that a seed repeats it where a template shows ids."""
        return hashlib.sha256(f"{self._calls} {name} {arguments}".encode()).hexdigest()[:9]


def _plain(call: dict[str, Any]) -> tuple[str, str, str | None]:
    name, arguments = call["name"], call.get("arguments", {})
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not (isinstance(name, str) and name and isinstance(arguments, dict)):
        raise ValueError("no call")
    return name, json.dumps(arguments), call.get("id")
