"""What a run writes, as events: token ids as they are, or text in sections, tool calls read."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llm_specdec.backends.events import Event, Notice, Reasoning, Text, Tokens, ToolCall
from llm_specdec.prompting.sections import REASONING, TEXT, TOOL, Sections
from llm_specdec.prompting.text import Piece, TextStream


class TokenAnswer:
    """An answer in token ids, which nothing is looked for in."""

    section, reasoning, stopped_by = TEXT, 0, None

    def feed(self, token: int) -> bool:
        return False

    def events(self, tokens: Sequence[int]) -> Iterator[Event]:
        if tokens:
            yield Tokens(tuple(tokens))

    def rest(self) -> Iterator[Event]:
        yield from ()


class TextAnswer:
    """An answer in text. tools: those on offer; calls: of the conversation so far."""

    def __init__(
        self,
        text: TextStream,
        sections: Sections,
        tools: Sequence[Mapping[str, Any]],
        calls: int,
    ) -> None:
        self._text, self._sections = text, sections
        self._tools, self._calls = list(tools), calls

    @property
    def section(self) -> str:
        """The section that the next token begins in."""
        return self._text.section

    @property
    def reasoning(self) -> int:
        """Tokens of thinking."""
        return self._text.reasoning

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended the answer."""
        return self._text.stopped_by

    def feed(self, token: int) -> bool:
        """Take in a committed token; whether it completes a stop string."""
        return self._text.feed(token)

    def events(self, tokens: Sequence[int]) -> Iterator[Event]:
        """What can be shown now that `tokens` were fed."""
        return self._of(self._text.take())

    def rest(self) -> Iterator[Event]:
        """What is left once the run has ended."""
        return self._of(self._text.finish())

    def _of(self, pieces: Iterable[Piece]) -> Iterator[Event]:
        for piece in pieces:
            if piece.section == TOOL:
                yield from self._tool(piece)
            else:
                yield Reasoning(piece.text) if piece.section == REASONING else Text(piece.text)

    def _tool(self, piece: Piece) -> Iterator[Event]:
        calls = self._read(piece.text)
        if calls is None:  # it is no use to anyone as a call, but it is what the model said
            yield Notice("warning", "a tool call could not be read, and is shown as text")
            end = self._sections.tool_end if piece.closed else ""
            yield Text(self._sections.tool_start + piece.text + end)
            return
        for name, arguments, given_id in calls:
            yield ToolCall(name, arguments, given_id or self._call_id(name, arguments))
            self._calls += 1

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
