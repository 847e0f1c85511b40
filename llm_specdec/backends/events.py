"""What is asked of a backend, and what comes back: small frozen dataclasses of plain data.

An answer is `Started`, then Text, Reasoning and ToolCall, or Tokens where token ids were asked,
then one `receipts.Result`. A Notice may come at any time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from llm_specdec.receipts import Result


@dataclass(frozen=True)
class Request:
    """One prompt: `messages` in the form that chat templates take, or token ids.

    tokens: a prompt as it stands; the answer is token ids too, to which stop strings and a
    thinking budget mean nothing.
    tools, schema: JSON schemas of what may be called, and of the answer.
    earlier_calls: tool calls so far in the conversation; they number the ids of further ones.
    max_tokens: instead of the plan's. ignore_eos: go on to max_tokens whatever comes.
    """

    messages: Sequence[Mapping[str, Any]] = ()
    tokens: Sequence[int] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    schema: Mapping[str, Any] | None = None
    earlier_calls: int = 0
    max_tokens: int | None = None
    ignore_eos: bool = False


@dataclass(frozen=True)
class Started:
    """All that can be refused was accepted and all weights are in memory. From here on a run
    that is cancelled has a Result."""


@dataclass(frozen=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True)
class Reasoning:
    """More of the thinking."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A whole call; `arguments` is a JSON object."""

    name: str
    arguments: str
    id: str


@dataclass(frozen=True)
class Tokens:
    """Token ids that a round committed."""

    ids: Sequence[int]


@dataclass(frozen=True)
class Notice:
    """Something to tell the user beside the answer: a warning, or why it takes a moment."""

    level: Literal["warning", "progress"]
    text: str


Event = Started | Text | Reasoning | ToolCall | Tokens | Notice | Result
