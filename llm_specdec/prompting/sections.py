"""Where a model's text changes between thinking, answer and tool calls.

mlx-lm knows the markers of most families and has parsers for their tool calls
(`TokenizerWrapper`); the harmony format of gpt-oss, which it has not, is read here.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TEXT, REASONING, TOOL, HEADER = "normal", "reasoning", "tool", "header"  # mlx-lm's words

Parser = Callable[[str, Any], Any]
Edges = dict[str, list[tuple[str, str]]]  # section → (marker, the section it opens)

HARMONY: Edges = {
    HEADER: [
        ("analysis<|message|>", REASONING),
        ("to=functions.", TOOL),
        ("<|message|>", TEXT),
    ],
    REASONING: [("<|end|>", HEADER), ("<|start|>", HEADER)],
    TEXT: [("<|end|>", HEADER), ("<|start|>", HEADER)],
    TOOL: [("<|call|>", HEADER)],
}
_HARMONY_CALL = re.compile(r"([\w.-]+).*?<\|message\|>(.*)", re.DOTALL)


@dataclass(frozen=True)
class Sections:
    """The sections of one model's text; `first` is the one that a generation prompt begins in.

    parse: inner text of a tool call, and the tools on offer → a call or a list of calls, each
    with name and arguments; raises anything. think_start, think_end: token ids of the markers
    of thinking, () for a model that has none; closing: what leads from thinking to the answer,
    where that is more than think_end. whole: every marker is one token, so that text that only
    spells one, letter by letter, is text.
    """

    edges: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    first: str = TEXT
    parse: Parser | None = None
    tool_start: str = ""
    tool_end: str = ""
    think_start: tuple[int, ...] = ()
    think_end: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()
    whole: bool = False


def sections_of(tokenizer: Any, tools: bool) -> Sections:
    """tokenizer: mlx-lm's wrapper; tools: whether the prompt offers any: text that looks like
    a call is text where it does not."""
    if all(_is_token(tokenizer, marker) for marker in ("<|channel|>", "<|message|>", "<|call|>")):
        return _harmony(tokenizer, tools)
    edges: Edges = {TEXT: [(marker, TEXT) for marker in tokenizer.structural_markers]}
    if tokenizer.has_thinking:
        edges[TEXT].append((tokenizer.think_start, REASONING))
        edges[REASONING] = [(tokenizer.think_end, TEXT)]
    for section, found in tokenizer.response_transitions.items():
        edges.setdefault(section, []).extend(e for e in found if tools or e[1] != TOOL)
    tools = tools and tokenizer.has_tool_calling
    if tools:
        end = tokenizer.tool_call_end
        edges[TOOL] = [(end, TEXT)] if end else []
        if not any(opens == TOOL for found in edges.values() for _, opens in found):
            edges[TEXT].append((tokenizer.tool_call_start, TOOL))
        if REASONING in edges:
            edges[REASONING].append((tokenizer.tool_call_start, TOOL))
    return Sections(
        edges,
        first=tokenizer.response_initial_state or TEXT,
        parse=tokenizer.tool_parser if tools else None,
        tool_start=tokenizer.tool_call_start if tools else "",
        tool_end=tokenizer.tool_call_end if tools else "",
        think_start=tuple(tokenizer.think_start_tokens or ()),
        think_end=tuple(tokenizer.think_end_tokens or ()),
        whole=all(_is_token(tokenizer, marker) for found in edges.values() for marker, _ in found),
    )


def _is_token(tokenizer: Any, text: str) -> bool:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return len(ids) == 1 and bool(tokenizer.decode(ids) == text)


def _harmony(tokenizer: Any, tools: bool) -> Sections:
    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    edges = {name: [e for e in found if tools or e[1] != TOOL] for name, found in HARMONY.items()}
    return Sections(
        edges,
        first=HEADER,
        parse=_harmony_call if tools else None,
        tool_start="to=functions." if tools else "",
        tool_end="<|call|>" if tools else "",
        think_start=ids("<|channel|>analysis<|message|>"),
        think_end=ids("<|end|>"),
        closing=ids("<|end|><|start|>assistant<|channel|>final<|message|>"),
    )


def _harmony_call(text: str, tools: Any) -> dict[str, Any]:
    """`name<|channel|>commentary <|constrain|>json<|message|>{…}`. Raises ValueError."""
    if not (found := _HARMONY_CALL.match(text)):
        raise ValueError("no message")
    return {"name": found[1], "arguments": json.loads(found[2])}
