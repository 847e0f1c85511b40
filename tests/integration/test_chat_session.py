"""`llm chat` on a terminal: interrupts, tools, templates, and a log with every turn."""

import os

import pexpect
import pytest

from tests.support import chains
from tests.support.command_line import LLM, logged_turns, write_registry

LOOP = ["<|loop|>", "round", " and", " about", ","]
CALL = ["<|call me|>", '<tool_call>{"name": "upper", "arguments": {"text": "fox"}}</tool_call>']
DONE = ["<|done|>", "Made ", "big."]
HI = ["<|hi|>", "Hello", " you."]
BRIEF = ["<|brief|>", "Hi."]
STARTS = {"loop": "<|loop|>", "tool": "<|done|>", "call": "<|call me|>", "Briefly": "<|brief|>"}
FUNCTIONS = 'def upper(text: str) -> str:\n    "Make it upper case."\n    return text.upper()\n'


@pytest.fixture
def terminal(llm_user, tmp_path):
    """Start an llm command on a pseudo-terminal; all are closed at the end."""
    written = [[*LOOP, LOOP[1]], CALL, DONE, HI, BRIEF]
    chains.write(tmp_path / "chain", written, chains.template(STARTS, "<|hi|>"))
    write_registry(
        f'[pairings.chain]\ntarget = "{tmp_path / "chain"}"\ndrafter = "lookup"\n'
        "[pairings.chain.settings]\ndraft_tokens = 3\n"
    )
    (llm_user / "templates").mkdir()
    (llm_user / "templates" / "brief.yaml").write_text(
        "prompt: 'Briefly: $input'\nsystem: Be brief."
    )
    (tmp_path / "tools.py").write_text(FUNCTIONS)
    started = []

    def start(*arguments):
        child = pexpect.spawn(
            LLM[0],
            [*LLM[1:], *arguments],
            env={**os.environ, "TERM": "dumb"},
            encoding="utf-8",
            timeout=120,
            echo=False,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def test_a_chat_from_interrupt_to_template(terminal, tmp_path):
    chat = terminal("chat", "-m", "chain", "--functions", str(tmp_path / "tools.py"))
    chat.expect("> ")
    chat.sendline("loop please")
    chat.expect("round and about,round")
    chat.sendintr()
    chat.expect("\r\n> ")  # back at the prompt
    chat.sendline("call it")
    chat.expect("Made big.\r\n> ")
    chat.sendline("exit")
    chat.expect(pexpect.EOF)
    assert chat.wait() == 0

    again = terminal("chat", "-c", "-t", "brief")  # another process, another template
    again.expect("> ")
    again.sendline("what now")
    again.expect("Hi.\r\n> ")
    again.sendline("exit")
    again.expect(pexpect.EOF)

    turns = logged_turns()
    assert [turn["prompt"] for turn in turns] == ["loop please", "call it", "", "Briefly: what now"]
    cut, call, done, brief = (turn["response"] for turn in turns)
    assert cut.startswith("round and about,round") and call == ""
    assert (done, brief) == ("Made big.", "Hi.")
    receipts = [turn["response_json"]["specdec"] for turn in turns]
    assert [r["finish_reason"] for r in receipts] == ["interrupted", "stop", "stop", "stop"]
    # What was said before the interrupt is part of every later prompt, in another process too.
    said = receipts[0]["tokens"]["completion"]
    assert all(receipt["tokens"]["prompt"] > said for receipt in receipts[1:])
    loads = [receipt["phases_ms"]["load"] for receipt in receipts]
    assert loads[0] > 10 * max(loads[1:3])  # weights stay in memory


def test_a_prompt_that_cannot_be_ends_the_chat_in_one_line(terminal):
    chat = terminal("chat", "-m", "chain", "-o", "context", "64")
    chat.expect("> ")
    chat.sendline("x" * 100)
    chat.expect("Error: the prompt has [0-9]+ tokens, the context of chain 64")
    chat.expect(pexpect.EOF)
    assert "Traceback" not in chat.before
    assert chat.wait() == 1
