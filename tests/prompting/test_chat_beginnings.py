"""Which beginnings of a rendered prompt other prompts will share."""

from typing import Any

import pytest

from llm_specdec.prompting import chat

CHATML = (
    "{% if messages[0].role != 'system' %}<s>Be good.</s>{% endif %}"
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}</{{ m.role[0] }}>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
THINKING = CHATML.replace("<a>{% endif %}", "<a><think>{% endif %}")
VALUES: dict[str, Any] = {"thinking": None, "thinking_budget": None, "chat_template_kwargs": {}}


class Tokenizer:
    """A character is a token."""

    def __init__(self, template):
        self.chat_template, self.has_chat_template = template, template is not None
        self.has_thinking, self.special_tokens_map = False, dict[str, str]()

    def encode(self, text, add_special_tokens=True):
        return [ord(c) for c in text]


def said(*texts, system=None):
    roles = ("user", "assistant") * len(texts)
    messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]
    return [{"role": "system", "content": system}, *messages] if system else messages


def beginnings(template, messages):
    tokenizer = Tokenizer(template)
    rendered = chat.render(tokenizer, messages, VALUES)
    return ["".join(map(chr, rendered.tokens[:n])) for n in rendered.shared()]


@pytest.mark.parametrize(
    ("template", "messages", "expected"),
    [
        (CHATML, said("Hi", system="Be brief."),
         ["<s>Be brief.</s><u>", "<s>Be brief.</s><u>Hi</u><a>"]),
        (CHATML, said("a question"), ["<s>Be good.</s><u>", "<s>Be good.</s><u>a question</u><a>"]),
        # The next turn shows the answer without the tail that asks for it.
        (THINKING, said("1 apple"), ["<s>Be good.</s><u>", "<s>Be good.</s><u>1 apple</u><a>"]),
        (THINKING, said("A", "B", "C", system="S"),
         ["<s>S</s><u>", "<s>S</s><u>A</u><a>B</a><u>C</u><a>"]),
        (None, said("Hi"), []),  # a base model
    ],
)  # fmt: skip
def test_system_prompt_and_last_stable_turn(template, messages, expected):
    assert beginnings(template, messages) == expected


def test_a_template_that_refuses_made_up_turns_names_none():
    refusing = "{% if messages|length > 1 %}{{ 1 / 0 }}{% endif %}" + CHATML
    assert beginnings(refusing, said("Hi")) == []
