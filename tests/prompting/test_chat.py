"""llm's messages through the templates of five families: what transformers makes of the same
conversation, written by hand in the form that templates take."""

from pathlib import Path
from typing import Any

import llm
import pytest
from llm.parts import (
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_message,
    user,
)
from transformers import AutoTokenizer

from llm_specdec.engine import tokenizer as tokenizers
from llm_specdec.errors import UsageError
from llm_specdec.prompting import chat
from llm_specdec.prompting.sections import HEADER, REASONING, TEXT, sections_of
from llm_specdec.prompting.text import TextStream
from tests.support import chains

FAMILIES = Path(__file__).parent / "families"
SPECIAL = {  # that mlx-lm, or the harmony reader, looks for
    "chatml": ["<think>", "</think>", "<tool_call>", "</tool_call>"],
    "mistral": ["[TOOL_CALLS]"],
    "harmony": ["<|channel|>", "<|message|>", "<|call|>", "<|start|>", "<|end|>"],
}
PLAIN: dict[str, Any] = {"thinking": None, "chat_template_kwargs": {}, "thinking_budget": None}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


TOOL = llm.Tool.function(add)
OFFERED = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": TOOL.input_schema,
    },
}
HISTORY = [
    system("Be brief."),
    user("Two and three?"),
    assistant(
        ReasoningPart("I can add."),
        TextPart("Let me add."),
        ToolCallPart("add", {"a": 2, "b": 3}, "abc123def"),
    ),
    tool_message(ToolResultPart("add", "5", "abc123def")),
    assistant(ReasoningPart("It is 5."), TextPart("Five.")),
    user("Sure?"),
    assistant(ReasoningPart("Of course."), TextPart("Yes."), TextPart(" Quite.")),
]
LAST = user("Thanks.")
CALL = {"name": "add", "arguments": {"a": 2, "b": 3}}


def expected(key):
    """HISTORY as templates take it, thinking under `key`."""

    def thought(text):
        return {key: text} if key else {}

    calls = [{"type": "function", "id": "abc123def", "function": CALL}]
    first = {"role": "assistant", "content": "Let me add.", "tool_calls": calls}
    first |= thought("I can add.")
    if key == "thinking":  # harmony takes one text before a call
        first |= {"content": "", "thinking": "I can add.\n\nLet me add."}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Two and three?"},
        first,
        {"role": "tool", "name": "add", "tool_call_id": "abc123def", "content": "5"},
        {"role": "assistant", "content": "Five."} | thought("It is 5."),
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes. Quite."} | thought("Of course."),
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder by family, with a tokenizer and that family's template."""
    root = tmp_path_factory.mktemp("families")
    for template in FAMILIES.glob("*.jinja"):
        folder, words = root / template.stem, SPECIAL.get(template.stem, [])
        chains.write_tokenizer(folder, words, template.read_text())
        (folder / "config.json").write_text("{}")
    return root


def prompt(messages, tools=()):
    model = llm.get_model("gpt-4o-mini")  # any: Prompt asks it for its options alone
    return llm.Prompt(None, model, messages=messages, tools=list(tools))


def rendered(folder, messages, tools=(), **values):
    found = chat.messages_for(prompt(messages, tools), None)
    offered = chat.tools_for(prompt(messages, tools))
    return chat.render(tokenizers.tokenizer_of(folder), found, PLAIN | values, offered)


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["", "tools"])
@pytest.mark.parametrize(
    ("family", "key", "kept"),
    [
        ("chatml", "reasoning_content", [4]),  # while the question is the same
        ("llama3", None, []),
        ("mistral", None, []),
        ("harmony", "thinking", [4, 6, 7]),  # where it led to a call
    ],
)
def test_a_history_with_tools_and_thinking(folders, family, key, kept, tools):
    for length in (2, 4, 6, 7):  # a first question, a tool's result, a second, an answer and more
        ours = HISTORY[:length] + [LAST] * (length == 7)
        theirs = expected(key)[:length] + [{"role": "user", "content": "Thanks."}] * (length == 7)
        reference: Any = AutoTokenizer.from_pretrained(folders / family)
        how: dict[str, Any] = {"tools": [OFFERED] if tools else None, "add_generation_prompt": True}
        text = reference.apply_chat_template(theirs, tokenize=False, **how)
        tokens = reference.apply_chat_template(theirs, return_dict=False, **how)
        found = rendered(folders / family, ours, tools)
        assert found.tokens == tokens
        assert text.endswith(found.opening)
        assert ("I can add." in text) == (length in kept)


def test_a_history_of_two_roles(folders):
    ours = [HISTORY[0], HISTORY[1], HISTORY[4], HISTORY[5]]
    theirs = [expected(None)[at] for at in (0, 1, 4, 5)]
    reference: Any = AutoTokenizer.from_pretrained(folders / "gemma")
    how = {"add_generation_prompt": True, "return_dict": False}
    assert rendered(folders / "gemma", ours).tokens == reference.apply_chat_template(theirs, **how)


def test_what_a_template_refuses_is_said_in_its_words(folders):
    with pytest.raises(UsageError, match="refuses this conversation: roles must take turns"):
        rendered(folders / "gemma", [user("One"), user("Two")])
    with pytest.raises(UsageError, match="has no tools: leave -T out"):
        rendered(folders / "gemma", [user("One")], [TOOL])


@pytest.mark.parametrize(
    ("family", "values", "opening", "section"),
    [
        ("chatml", {}, "<|im_start|>assistant\n<think>\n", REASONING),
        ("chatml", {"thinking": "off"}, "<|im_start|>assistant\n<think>\n\n</think>\n\n", TEXT),
        ("llama3", {}, "<|start_header_id|>assistant<|end_header_id|>\n\n", TEXT),
        ("gemma", {}, "<start_of_turn>model\n", TEXT),
        ("mistral", {}, "", TEXT),
        ("harmony", {}, "<|start|>assistant", HEADER),
    ],
)
def test_the_opening_says_which_section_comes_first(folders, family, values, opening, section):
    found = rendered(folders / family, [user("Hi <think>")], **values)
    assert found.opening == opening
    tokenizer = tokenizers.tokenizer_of(folders / family)
    sections = sections_of(tokenizer, tools=False)
    assert TextStream(tokenizer.detokenizer, [], sections, found.opening).section == section


def test_a_template_that_can_be_told_of_a_budget_is(tmp_path):
    told = "{{ messages[0].content }} {{ thinking_budget }}"
    chains.write_tokenizer(tmp_path / "told", [], told)
    (tmp_path / "told" / "config.json").write_text("{}")
    found = rendered(tmp_path / "told", [user("Hi")], thinking_budget=50)
    assert tokenizers.tokenizer_of(tmp_path / "told").decode(found.tokens) == "Hi 50"


@pytest.mark.parametrize(
    ("family", "said", "calls"),
    [
        ("chatml", '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>', True),
        ("mistral", '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}]', True),
        ("harmony", '<|channel|>commentary to=functions.add<|message|>{"a": 1}', True),
        ("llama3", '{"name": "add", "parameters": {"a": 1}}', False),
    ],
)
def test_calls_are_read_where_there_is_a_parser(folders, family, said, calls):
    tokenizer = tokenizers.tokenizer_of(folders / family)
    sections = sections_of(tokenizer, tools=True)
    assert (sections.parse is not None) == calls
    text = TextStream(tokenizer.detokenizer, [], sections)
    text._read(said)
    (piece,) = text.finish()
    if sections.parse:
        found = sections.parse(piece.text, [OFFERED])
        assert found == {"name": "add", "arguments": {"a": 1}}
    else:
        assert piece.text == said


def test_several_results_are_messages_of_their_own():
    results = tool_message(ToolResultPart("add", "5", "1"), ToolResultPart("add", "7", "2"))
    found = chat.messages_for(prompt([user("Go"), results]), "Default.")
    assert found == [
        {"role": "system", "content": "Default."},
        {"role": "user", "content": "Go"},
        {"role": "tool", "name": "add", "tool_call_id": "1", "content": "5"},
        {"role": "tool", "name": "add", "tool_call_id": "2", "content": "7"},
    ]
