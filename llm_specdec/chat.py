"""llm's messages → prompt tokens, through the target's own chat template."""

from collections.abc import Mapping, Sequence
from typing import Any

import llm
from llm.parts import TextPart

from llm_specdec import thinking
from llm_specdec.errors import UsageError


def messages_for(prompt: llm.Prompt, default_system: str | None) -> list[dict[str, Any]]:
    """The whole conversation as the template takes it.

    `prompt.messages` is the full chain, but with `-c -s NEW` the new system text stands only
    in `prompt.system`: it replaces the old one. Thinking of earlier turns is left out.
    Raises UsageError for bytes that are no UTF-8, which Python hands on as lone surrogates.
    """
    messages = [
        {"role": message.role, "content": _text(message.parts)} for message in prompt.messages
    ]
    system = prompt.system or _first_system(messages) or default_system
    spoken = [message for message in messages if message["role"] != "system"]
    found = [{"role": "system", "content": system}, *spoken] if system else spoken
    if any(not _encodable(message["content"]) for message in found):
        raise UsageError("the prompt is not UTF-8: convert it, with iconv for example")
    return found


def tokens_for(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], values: Mapping[str, Any]
) -> list[int]:
    """Token ids of the rendered conversation, the template's generation prompt included.

    values: the settings in effect; thinking and chat_template_kwargs reach the template.
    A model without a chat template (a base model) gets the texts as they are.
    Raises UsageError for what the template does not know, or refuses.
    """
    arguments = thinking.template_arguments(
        template_text(tokenizer), values["thinking"], values["chat_template_kwargs"]
    )
    if tokenizer.has_chat_template:
        try:
            tokens: list[int] = tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, **arguments
            )
        except Exception as error:  # a template may raise anything, and says so in its own words
            raise UsageError(
                f"the model's chat template refuses this conversation: {error}"
            ) from None
        return list(tokens)
    text = "\n\n".join(message["content"] for message in messages)
    return list(tokenizer.encode(text))


def template_text(tokenizer: Any) -> str | None:
    """The chat template; "" for a model without one, None where mlx-lm renders in Python."""
    found = tokenizer.chat_template
    if isinstance(found, dict):  # several by name
        found = found.get("default")
    if isinstance(found, str):
        return found
    return None if tokenizer.has_chat_template else ""


def _text(parts: Sequence[Any]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _first_system(messages: Sequence[Mapping[str, Any]]) -> str | None:
    return next((m["content"] for m in messages if m["role"] == "system" and m["content"]), None)
