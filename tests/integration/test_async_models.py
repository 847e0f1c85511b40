"""The async model, and the sync one from many threads: what serial prompts answer."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import llm
import pytest

from fixtures import zoo
from llm_specdec.adapter.model_thread import Reading
from tests.support.command_line import write_registry

QUESTIONS = [f"w{number} w{number + 1} w2" for number in range(10)]


@pytest.fixture
def tiny(tmp_path):
    """A random model as pairing `tiny`, with prompt lookup."""
    zoo.write("qwen3", tmp_path / "tiny")
    write_registry(
        f'[pairings.tiny]\ntarget = "{tmp_path / "tiny"}"\ndrafter = "lookup"\n'
        "[pairings.tiny.settings]\ndraft_tokens = 3\nmax_tokens = 24\ncontext = 512\n"
    )
    return "tiny"


def digest(response_json):
    return response_json["specdec"]["completion_sha256"]


@pytest.fixture
def serial(tiny):
    """What each question's answer is, one after another."""
    model, found = llm.get_model(tiny), []
    for question in QUESTIONS:
        response = model.prompt(question)
        found.append((response.text(), digest(response.json())))
    assert len(set(found)) == len(QUESTIONS)  # each its own, so a mix-up would show
    return found


def test_ten_awaits_at_once_equal_serial_answers(tiny, serial):
    async def ask(question):
        response = llm.get_async_model(tiny).prompt(question)
        return await response.text(), digest(await response.json())

    async def all_at_once():
        return await asyncio.gather(*map(ask, QUESTIONS))

    assert asyncio.run(all_at_once()) == serial


def test_ten_threads_of_the_sync_model_equal_serial_answers(tiny, serial):
    def ask(question):
        response = llm.get_model(tiny).prompt(question)
        return response.text(), digest(response.json())

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(ask, QUESTIONS)) == serial


def test_two_answers_read_in_turns_equal_serial_answers(tiny, serial):
    model = llm.get_model(tiny)
    one, two = model.prompt(QUESTIONS[0]), model.prompt(QUESTIONS[1])
    first = iter(one)
    started = next(first)
    assert two.text() == serial[1][0]
    assert started + "".join(first) == serial[0][0]


def test_a_cancelled_answer_ends_within_a_round_and_the_next_is_right(tiny, serial):
    async def cancel_then_ask():
        model = llm.get_async_model(tiny)
        long = model.prompt(QUESTIONS[0], max_tokens=400)
        task = asyncio.create_task(long.text())
        while not long._chunks:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        after = model.prompt(QUESTIONS[1])
        return await after.text(), long.response_json

    text, cut = asyncio.run(cancel_then_ask())
    assert text == serial[1][0]
    assert cut["specdec"]["finish_reason"] == "interrupted"
    assert cut["specdec"]["tokens"]["completion"] < 400


def test_a_loop_that_is_gone_does_not_stop_the_worker(tiny, serial):
    async def start():
        response = llm.get_async_model(tiny).prompt(QUESTIONS[0], max_tokens=400)
        async for _ in response:
            break

    asyncio.run(start())
    assert llm.get_model(tiny).prompt(QUESTIONS[1]).text() == serial[1][0]


def test_an_error_is_llms_own_in_both(tiny):
    async def ask():
        await llm.get_async_model(tiny).prompt("w1 " * 600).text()

    with pytest.raises(llm.ModelError, match="shorten it"):
        asyncio.run(ask())
    with pytest.raises(llm.ModelError, match="shorten it"):
        llm.get_model(tiny).prompt("w1 " * 600).text()


def test_models_run_on_one_thread_and_not_on_the_callers(tiny, monkeypatch):
    from llm_specdec.engine.prefill import prefill

    seen: set[int] = set()

    def watched(*arguments):
        seen.add(threading.get_ident())
        return prefill(*arguments)

    monkeypatch.setattr("llm_specdec.engine.loop.prefill", watched)
    llm.get_model(tiny).prompt(QUESTIONS[0]).text()

    async def ask():
        return await llm.get_async_model(tiny).prompt(QUESTIONS[0]).text()

    def on_thread(job):
        yield threading.get_ident()

    asyncio.run(ask())
    assert seen == set(Reading(on_thread).items())
