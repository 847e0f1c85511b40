"""Thinking and tool calls of a model whose answers are known, through llm."""

import json
import re

import llm
import pytest
from llm.parts import ReasoningPart, TextPart, ToolCallPart, ToolResultPart

from llm_specdec.console import notices
from llm_specdec.engine import tokenizer as tokenizers
from tests.support import chains
from tests.support.command_line import run_process, write_registry

PANDA = ["<0xF0>", "<0x9F>", "<0x90>", "<0xBC>"]
THINK = ["<|ask|>", "<think>", "\n", "Let me", " see", ".", "</think>", "\r", "It is ", *PANDA]
THINK += [" indeed", "!", " "]
OPEN = ["<|open|>", "Oh", ", well", "</think>"]  # and goes on as above
CALLS = ["<|use|>", "Looking", ":", "<tool_call>", '{"name": "upper", ', '"arguments": ']
CALLS += ['{"text": "panda"}}', "</tool_call>", "\t"]
CALLS += ['<tool_call>{"name": "upper", "arguments": {"text": "fox"}}</tool_call>']
DONE = ["<|done|>", "Both are", " upper case."]
BROKEN = [
    "<|bad|>",
    "Hm ",
    "<tool_call>{broken",
    "}</tool_call>",
    "<tool_call>[1]</tool_call>",
    "?",
]
STARTS = {"open": "<think><|open|>", "use": "<|use|>", "tool": "<|done|>", "bad": "<|bad|>"}


def upper(text: str) -> str:
    """Make it upper case."""
    return text.upper()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chains")
    written = [THINK, OPEN, CALLS, DONE, BROKEN]
    chains.write(folder / "chain", written, chains.template(STARTS, "<|ask|>"))
    chains.write(folder / "toolless", [DONE], "{{ messages[-1].content }}<|done|>")
    return folder


@pytest.fixture
def models(checkpoints):
    """Pairings chain and toolless, drafted by prompt lookup; no warning was shown yet."""
    notices.warn.cache_clear()
    write_registry(
        "".join(
            f'[pairings.{name}]\ntarget = "{checkpoints / name}"\ndrafter = "lookup"\n'
            f"[pairings.{name}.settings]\ndraft_tokens = 3\n"
            for name in ("chain", "toolless")
        )
    )


def ask(question, **how):
    return llm.get_model("chain").prompt(question, **how)


def parts(response):
    return [part for message in response.messages() for part in message.parts]


def tokens(response):
    return response.json()["specdec"]["tokens"]


# Thinking


def test_thinking_and_answer_are_apart_and_both_counted(models):
    response = ask("hi")
    events = list(response.stream_events())
    assert {event.type for event in events} == {"reasoning", "text"}
    assert parts(response) == [ReasoningPart("Let me see."), TextPart("It is 🐼 indeed! ")]
    # "\n", "Let me", " see", "." between the markers; with them, the rest and the end: 16
    assert tokens(response)["reasoning"] == 4
    assert tokens(response)["completion"] == 16
    assert response.usage().details["reasoning"] == 4
    assert all("�" not in event.chunk for event in events)


def test_thinking_that_the_prompt_opened(models):
    response = ask("open")
    assert parts(response)[0] == ReasoningPart("Oh, well")
    assert response.text() == "It is 🐼 indeed! "
    assert tokens(response)["reasoning"] == 2


def test_a_marker_in_the_question_opens_nothing(models):
    assert ask("what is <think>").text() == "It is 🐼 indeed! "


def test_stop_strings_are_for_the_answer(models):
    response = ask("hi", stop=["see", "indeed"])
    assert parts(response) == [ReasoningPart("Let me see."), TextPart("It is 🐼 ")]
    assert response.json()["specdec"]["finish_reason"] == "stop"


def test_an_answer_cut_while_thinking_has_no_text(models):
    response = ask("hi", max_tokens=4)
    assert response.text() == ""
    assert parts(response) == [ReasoningPart("Let me see")]
    assert response.json()["specdec"]["finish_reason"] == "length"
    assert tokens(response)["reasoning"] == 3


@pytest.mark.parametrize("budget", [0, 1, 2, 4])
def test_a_thinking_budget_leads_to_the_same_answer(models, budget):
    response = ask("hi", thinking_budget=budget)
    assert response.text() == "It is 🐼 indeed! "
    assert tokens(response)["reasoning"] == budget
    assert response.json()["specdec"]["sampling"]["thinking_budget"] == budget


def test_a_budget_needs_a_model_that_thinks(models):
    with pytest.raises(llm.ModelError, match="no markers of thinking: unset thinking_budget"):
        llm.get_model("toolless").prompt("hi", thinking_budget=3).text()


def test_a_character_cut_in_two_is_left_out(models):
    response = ask("hi", max_tokens=10)  # three bytes of the panda
    assert response.text() == "It is "


@pytest.mark.parametrize("flags", [[], ["-R"], ["--no-stream"], ["-x"]])
def test_stdout_has_the_answer_alone(models, flags):
    run = run_process("-m", "chain", "hi", *flags)
    assert run.stdout == "It is 🐼 indeed! \n"
    assert ("Let me see." in run.stderr) == (flags == [])


def test_history_leaves_thinking_to_the_template(models, checkpoints):
    conversation = llm.get_model("chain").conversation()
    conversation.prompt("hi").text()
    second = conversation.prompt("hi again")
    second.text()
    spoken = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nIt is 🐼 indeed! <|im_end|>\n"
    spoken += "<|im_start|>user\nhi again<|im_end|>\n<|im_start|>assistant\n<|ask|>"
    tokenizer = tokenizers.tokenizer_of(checkpoints / "chain")
    assert tokens(second)["prompt"] == len(tokenizer.encode(spoken))


# Tools


def test_a_chain_of_tools_runs_to_its_answer(models):
    chain = llm.get_model("chain").chain("use it", tools=[upper])
    assert chain.text() == "Looking: Both are upper case."
    first, second = chain._responses
    calls = [part for part in parts(first) if isinstance(part, ToolCallPart)]
    assert [(call.name, call.arguments) for call in calls] == [
        ("upper", {"text": "panda"}),
        ("upper", {"text": "fox"}),
    ]
    assert [call.tool_call_id for call in calls] == [c.tool_call_id for c in first.tool_calls()]
    assert len({call.tool_call_id for call in calls}) == 2
    assert all(re.fullmatch("[A-Za-z0-9]{9}", str(call.tool_call_id)) for call in calls)
    results = next(m for m in second.prompt.messages if m.role == "tool").parts
    assert results == [
        ToolResultPart("upper", "PANDA", calls[0].tool_call_id),
        ToolResultPart("upper", "FOX", calls[1].tool_call_id),
    ]


def test_calls_have_the_same_ids_in_the_same_conversation(models):
    ids = [ask("use it", tools=[upper]).tool_calls()[0].tool_call_id for _ in range(2)]
    assert ids[0] == ids[1]


def test_a_chain_limit_holds(models):
    with pytest.raises(ValueError, match="Chain limit"):
        conversation = llm.get_model("chain").conversation()
        conversation.chain("use it", tools=[upper], chain_limit=1).text()


def test_calls_that_cannot_be_read_are_shown_with_one_warning(models, capfd):
    response = ask("bad", tools=[upper])
    assert response.text() == ("Hm<tool_call>{broken}</tool_call><tool_call>[1]</tool_call>?")
    assert response.tool_calls() == []
    assert capfd.readouterr().err.count("Warning") == 1


def test_a_call_cut_short_is_shown(models, capfd):
    response = ask("use it", tools=[upper], max_tokens=4)
    assert response.text() == 'Looking:<tool_call>{"name": "upper", '
    assert response.tool_calls() == []


def test_without_tools_on_offer_a_call_is_text(models, capfd):
    response = ask("use it")
    assert response.text().startswith('Looking:<tool_call>{"name": "upper", "arguments"')
    assert response.tool_calls() == []
    assert capfd.readouterr().err == ""


def test_a_template_without_tools_says_so(models):
    run = run_process("-m", "toolless", "hi", "-T", "llm_version")
    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr == "Error: this model's chat template has no tools: leave -T out\n"


def test_tools_debug_shows_calls_and_results(models):
    function = 'def upper(text: str) -> str:\n    "Make it upper case."\n    return text.upper()'
    run = run_process("-m", "chain", "use it", "--functions", function, "--td")
    assert run.exit_code == 0
    assert run.stdout == "Looking: Both are upper case.\n"
    assert "upper({'text': 'panda'})" in run.stderr and "PANDA" in run.stderr
    logged = json.loads(run_process("logs", "--json", "-n", "0").stdout)
    assert len(logged) == 2


@pytest.mark.parametrize(("question", "thought"), [("hi", "Let me see."), ("open", "Oh, well")])
def test_a_schema_holds_for_the_answer_and_leaves_thinking_free(models, question, thought):
    response = ask(question, schema={"enum": ["ok"]})
    assert response.text() == '"ok"'
    assert parts(response) == [ReasoningPart(thought), TextPart('"ok"')]
    receipt = response.response_json["specdec"]
    assert receipt["constraint"] == {"kind": "schema", "complete": True, "ended_early": False}


def test_tools_and_a_schema_at_once_are_refused(models):
    with pytest.raises(llm.ModelError, match="tools and a schema at once"):
        ask("use it", schema={"enum": ["ok"]}, tools=[upper]).text()
