"""A pairing through llm, as a shell user and as a Python user meet it."""

import shlex
import signal
import sqlite3
import subprocess

import llm
import pytest

from llm_specdec import hub
from llm_specdec.backends.local import sessions
from llm_specdec.engine.session import Weights
from llm_specdec.pairings import registry
from llm_specdec.prompting.chat import messages_for
from llm_specdec.receipts.payload import sha256_of
from tests.support.command_line import LLM, run_process, write_registry
from tests.support.receipts import logged_receipts, receipt_of

pytestmark = pytest.mark.real

QUESTION = "What is the capital of France?"


@pytest.mark.parametrize("name", ["plain", "look", "small"])
def test_every_lane_answers_and_leaves_a_receipt(pairings, name):
    run = run_process("-m", name, QUESTION)
    assert run.printed == "The capital of France is Paris.\n"
    assert run.stderr == ""
    (receipt,) = logged_receipts()
    assert receipt["pairing"] == name
    assert receipt["lane"]["kind"] == {"plain": "none", "look": "lookup", "small": "model"}[name]
    assert receipt["tokens"]["completion"] == 8  # seven words and the end token
    assert receipt["finish_reason"] == "stop"
    inside = sum(ms for phase, ms in receipt["phases_ms"].items() if phase != "load")
    assert inside == pytest.approx(receipt["wall_ms"], rel=0.01)
    assert (receipt["draft"]["drafted"] > 0) == (name == "small")


def test_all_lanes_write_the_same_tokens(pairings):
    prompt = "Write a Python function that returns the second largest number of a list."
    for name in ("plain", "look", "small"):
        assert run_process("-m", name, prompt, "-o", "max_tokens", "60").exit_code == 0
    first, *others = (receipt["completion_sha256"] for receipt in logged_receipts())
    assert others == [first, first]


def test_the_view_answers_in_sql(pairings, llm_user):
    run_process("-m", "look", QUESTION)
    with sqlite3.connect(llm_user / "logs.db") as db:
        row = db.execute(
            "select model, lane, completion_tokens, finish_reason from specdec_runs"
        ).fetchone()
    assert row == ("look", "lookup", 8, "stop")


def test_unlogged_runs_leave_nothing(pairings):
    assert run_process("-m", "plain", QUESTION, "-n", "-o", "max_tokens", "2").printed
    assert logged_receipts() == []


def test_history_reaches_the_model(pairings):
    run_process("-m", "plain", "My name is Ada. Say hello.", "-o", "max_tokens", "12")
    run_process("-m", "plain", "-c", "What is my name?", "-o", "max_tokens", "12")
    first, second = logged_receipts()
    alone = 5
    assert second["tokens"]["prompt"] > first["tokens"]["prompt"] + first["tokens"]["completion"]
    assert second["tokens"]["completion"] >= alone


def test_a_system_prompt_replaces_the_earlier_one(pairings):
    model = llm.get_model("plain")
    conversation = model.conversation()
    conversation.prompt("Hi", system="Be brief.", max_tokens=2).text()
    response = conversation.prompt("Hi again", system="Be rude.", max_tokens=2)
    response.text()
    messages = messages_for(response.prompt, None)
    assert [m["content"] for m in messages if m["role"] == "system"] == ["Be rude."]


def test_same_seed_same_text_streamed_or_not(pairings):
    model = llm.get_model("small/hot")

    def tokens(seed, stream):
        response = model.prompt("Tell me a story.", seed=seed, max_tokens=24, stream=stream)
        return receipt_of(response)["completion_sha256"]

    assert tokens(0, True) == tokens(0, False) == tokens(0, True)
    assert tokens(0, True) != tokens(1, True)


def test_a_stop_string_ends_text_and_count_together(pairings):
    response = llm.get_model("small").prompt(QUESTION, stop=["France"], max_tokens=50)
    assert response.text() == "The capital of "
    receipt = receipt_of(response)
    assert receipt["finish_reason"] == "stop"
    assert receipt["tokens"]["completion"] == 4


def test_max_tokens_inside_a_draft_is_kept_exactly(pairings):
    for limit in range(1, 8):
        response = llm.get_model("small").prompt(QUESTION, max_tokens=limit)
        receipt = receipt_of(response)
        assert receipt["tokens"]["completion"] == limit
        assert receipt["finish_reason"] == "length"


def test_weights_load_once_a_process(pairings):
    for _ in range(2):
        response = llm.get_model("plain").prompt(QUESTION, max_tokens=2)
        receipt_of(response)
    assert receipt_of(response)["phases_ms"]["load"] < 50


def test_the_receipt_names_the_tokens_by_their_hash(pairings):
    response = llm.get_model("plain").prompt(QUESTION)
    text = response.text()
    target = hub.locate(registry.load().pairing("plain").target)
    loaded = sessions.load(Weights(target))
    ids = loaded.tokenizer.encode(text, add_special_tokens=False)
    end = loaded.tokenizer.eos_token_id
    assert receipt_of(response)["completion_sha256"] == sha256_of([*ids, end])


def test_draft_false_runs_the_target_alone(pairings):
    response = llm.get_model("small").prompt(QUESTION, draft=False, max_tokens=4)
    receipt = receipt_of(response)
    assert receipt["lane"]["state"] == "off"
    assert receipt["draft"]["drafted"] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-m", "plain", ""], "empty"),
        (["-m", "plain", "hi", "-o", "temperature", "-1"], "temperature"),
        (["-m", "plain", "hi", "-o", "max_tokens", "0"], "max_tokens"),
        (["-m", "plain", "hi", "-o", "penalty_scope", "other"], "penalty_scope"),
        (["-m", "plain", "hi", "-o", "thinking", "on"], "knows no thinking"),
        (["-m", "plain", "hi", "-o", "chat_template_kwargs", '{"x": 1}'], "no argument 'x'"),
        (["-m", "small/mute", "hi", "-s", "Be brief."], "leave -s out"),
        (["-m", "plain", "word " * 9000], ": shorten it"),
        (["-m", "plain", "hi", "-o", "logit_bias", '{"999999": 1}'], "no token 999999"),
        (["-m", "plain", "\udcff"], "not UTF-8"),
        (["-m", "nobody", "hi"], "nobody"),
    ],
)
def test_bad_input_is_one_line_and_no_traceback(pairings, arguments, says):
    run = run_process(*arguments)
    assert run.exit_code in (1, 2) and run.stdout == ""
    assert says in run.error


def test_an_interrupt_keeps_and_logs_what_was_said(pairings):
    process = subprocess.Popen(
        [*LLM, "-m", "plain", "Write a long story about the sea."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    said = process.stdout.read(20)  # the first words are out
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    (receipt,) = logged_receipts()
    assert receipt["finish_reason"] == "interrupted"
    assert receipt["tokens"]["completion"] > 0
    assert len(said + rest) > 20


def test_a_broken_pipe_ends_quietly(pairings):
    command = f"{shlex.join(LLM)} -m plain 'Write a long story about the sea.' | head -c 10"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert len(run.stdout) == 10
    assert run.stderr == ""


def test_a_broken_pairing_is_warned_of_once_a_command():
    write_registry("[pairings.bad]\ntarget = 3\n")
    run = run_process("-m", "bad", "hi")  # llm lists its models several times
    assert run.exit_code != 0
    assert run.stderr.count("pairings.bad.target") == 1


def test_a_broken_registry_leaves_other_models_alone():
    write_registry("[pairings.x\n")
    run = run_process("models")
    assert "gpt-4o" in run.printed and "line 1" in run.error
