"""llm's messages → prompt tokens, through the target's own chat template."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import llm
from llm.parts import AttachmentPart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

from llm_specdec.errors import UsageError
from llm_specdec.prompting import thinking
from llm_specdec.prompting.rendering import Conversation, Shown, show
from llm_specdec.prompting.templates import read, template_text

Messages = Sequence[Mapping[str, Any]]


class Rendered(NamedTuple):
    """Token ids of a conversation, and the end of its text that opens the answer.

    shared() renders other conversations that begin alike: how many of the first tokens those
    with the same system prompt have in common with this one, and how many its own next turn,
    which may show the last ones differently. Empty where that cannot be told.
    """

    tokens: list[int]
    opening: str
    shared: Callable[[], list[int]] = list


def messages_for(prompt: llm.Prompt, default_system: str | None) -> list[dict[str, Any]]:
    """The whole conversation in the form that templates take.

    `prompt.messages` is the full chain, but with `-c -s NEW` the new system text stands only
    in `prompt.system`: it replaces the old one. Each result of a tool is a message of its own.
    Raises UsageError for bytes that are no UTF-8, which Python hands on as lone surrogates.
    """
    messages = [found for message in prompt.messages for found in _messages(message)]
    system = prompt.system or _first_system(messages) or default_system
    spoken = [message for message in messages if message["role"] != "system"]
    found = [{"role": "system", "content": system}, *spoken] if system else spoken
    if any(not _encodable(message["content"]) for message in found):
        raise UsageError("the prompt is not UTF-8: convert it, with iconv for example")
    return found


def tools_for(prompt: llm.Prompt) -> list[dict[str, Any]]:
    """The tools on offer, as JSON schemas."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.input_schema or {"type": "object", "properties": {}},
            },
        }
        for tool in prompt.tools
        if isinstance(tool, llm.Tool)
    ]


def render(
    tokenizer: Any,
    messages: Messages,
    values: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] = (),
    cancelled: Callable[[], bool] = lambda: False,
) -> Rendered:
    """The conversation as the model reads it, the template's generation prompt included.

    values: the settings in effect; thinking and chat_template_kwargs reach the template.
    A model without a chat template (a base model) gets the texts as they are.
    Raises UsageError for what the template does not know, or refuses, and KeyboardInterrupt
    once `cancelled` says so.
    """
    text = template_text(tokenizer, bool(tools))
    if tools and text is not None and not (text and read(text).tools):
        raise UsageError("this model's chat template has no tools: leave -T out")
    if not tokenizer.has_chat_template:
        joined = "\n\n".join(message["content"] for message in messages)
        return Rendered(list(tokenizer.encode(joined)), "")
    arguments = thinking.template_arguments(
        text, values["thinking"], values["chat_template_kwargs"], values["thinking_budget"]
    )
    if tools:
        arguments["tools"] = list(tools)
    asked = [Conversation(messages), Conversation(messages, generation_prompt=False)]
    asked += [Conversation(other) for other in _beginning_alike(messages)]
    asked = [one._replace(messages=_with_reasoning(one.messages, text)) for one in asked]
    whole, bare, *others = show(tokenizer, text, asked, arguments, cancelled)
    for shown in (whole, bare):
        if isinstance(shown, UsageError):
            raise shown
    assert isinstance(whole, Shown) and isinstance(bare, Shown)
    opening = whole.text.removeprefix(bare.text) if whole.text.startswith(bare.text) else ""
    tokens = whole.tokens()
    return Rendered(tokens, opening, functools.partial(_shared, tokens, others))


def _beginning_alike(messages: Messages) -> list[Messages]:
    """Two other questions after the same system prompt, and the next turn of this conversation;
    [] where nobody asks anything."""
    roles = [message["role"] for message in messages]
    if "user" not in roles:
        return []
    before = messages[: roles.index("user")]
    # Two words: one may begin as the real question does.
    questions = [{"role": "user", "content": word} for word in ("a", "1")]
    next_turn = [*messages, {"role": "assistant", "content": "a"}, questions[0]]
    return [*([*before, question] for question in questions), next_turn]


def _shared(tokens: Sequence[int], others: Sequence[Shown | UsageError]) -> list[int]:
    """See Rendered; others: as `_beginning_alike` has them."""
    known = [_common(tokens, other.tokens()) for other in others if isinstance(other, Shown)]
    if not known or len(known) < len(others):  # a template that refuses such a conversation
        return []
    *system, turn = known
    return [min(system), turn]


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common beginning."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    """What one of llm's messages is for a template; "reasoning" is renamed or dropped later,
    and "images" are there for a server only."""
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            yield {
                "role": "tool",
                "name": part.name,
                "tool_call_id": part.tool_call_id,
                "content": part.output,
            }
    content = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCallPart)]
    thought = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
    attached = [part.attachment for part in message.parts if isinstance(part, AttachmentPart)]
    images = [_url(attachment) for attachment in attached if attachment]
    if message.role != "tool" or content:
        yield {
            "role": message.role,
            "content": content,
            **({"reasoning": thought} if thought else {}),
            **({"tool_calls": calls} if calls else {}),
            **({"images": images} if images else {}),
        }


def _url(attachment: llm.Attachment) -> str:
    """Where it is, or what it is: a server fetches what has an address."""
    if attachment.url:
        return attachment.url
    return f"data:{attachment.resolve_type()};base64,{attachment.base64_content()}"


def _call(part: ToolCallPart) -> dict[str, Any]:
    function = {"name": part.name, "arguments": part.arguments}
    return {"type": "function", "id": part.tool_call_id, "function": function}


def _with_reasoning(messages: Messages, template: str | None) -> list[dict[str, Any]]:
    """Thinking of earlier turns under the name that the template reads; it knows which to keep.
    One that reads none gets none."""
    if not any("reasoning" in message for message in messages):
        return [dict(message) for message in messages]
    key = "reasoning_content" if template is None else read(template).reasoning
    found = []
    for message in messages:
        others = {name: value for name, value in message.items() if name != "reasoning"}
        if key and (thought := message.get("reasoning")):
            if key == "thinking" and others.get("tool_calls"):  # harmony: one text before a call
                thought = "\n\n".join(filter(None, (thought, others["content"])))
                others["content"] = ""
            others[key] = thought
        found.append(others)
    return found


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _first_system(messages: Messages) -> str | None:
    return next((m["content"] for m in messages if m["role"] == "system" and m["content"]), None)
