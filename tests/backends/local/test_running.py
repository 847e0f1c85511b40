"""What a backend owes its reader: events, one result, and what may be left undone after it."""

import itertools

import pytest

from fixtures import zoo
from llm_specdec.backends import (
    Notice,
    Reasoning,
    Request,
    Result,
    Started,
    Text,
    Tokens,
    ToolCall,
    execute,
    local,
    plan,
)
from llm_specdec.backends.local import loading
from llm_specdec.backends.notices import shown
from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.engine.session import Session
from llm_specdec.errors import ContextError, UsageError
from llm_specdec.pairings.registry import Pairing
from llm_specdec.prefix_cache import process
from llm_specdec.settings import resolve
from tests.support import chains

THINK = ["<|ask|>", "<think>", "Let me", " see", "</think>", "It is", " so", "."]
CALL = ["<|use|>", "Look:", '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>']
BAD = ["<|bad|>", "<tool_call>{broken", "}</tool_call>"]
LOOP = ["<|loop|>", "on", " and", "on"]
STARTS = {"use": "<|use|>", "bad": "<|bad|>", "loop": "<|loop|>"}
TOOL = {"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}
WORDS = " ".join(f"w{number}" for number in range(50))  # long enough to be worth keeping


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    chains.write(folder / "chain", [THINK, CALL, BAD, LOOP], chains.template(STARTS, "<|ask|>"))
    zoo.write("qwen3", folder / "tiny")
    return folder


@pytest.fixture
def planned(llm_user, folder):
    def made(name="chain", **options):
        options = {"max_tokens": 16, "context": 512, "draft_tokens": 3} | options
        pairing = Pairing(name, str(folder / name), drafter="lookup", kind="lookup")
        return plan(pairing, None, resolve(pairing, None, options=options))

    return made


def asked(text, **more):
    return Request([{"role": "user", "content": text}], **more)


def result(events):
    (found,) = [event for event in events if isinstance(event, Result)]
    return found


def test_an_answer_is_started_then_pieces_then_one_result(planned):
    events = list(execute(planned(), asked("hi")))
    started, *pieces, last = events
    assert started == Started()
    said = [piece for piece in pieces if isinstance(piece, Reasoning | Text)]
    assert said == pieces
    joined = [
        (kind, "".join(piece.text for piece in group))
        for kind, group in itertools.groupby(said, type)
    ]
    assert joined == [(Reasoning, "Let me see"), (Text, "It is so.")]
    assert isinstance(last, Result)
    assert (last.finish_reason, last.reasoning_tokens) == ("stop", 2)


@pytest.mark.parametrize(("options", "counted"), [({}, True), ({"thinking_budget": 9}, False)])
def test_after_an_answer_its_passes_are_held_against_costs(planned, monkeypatch, options, counted):
    """But for those that waited for masks."""
    told = []

    def refine(plan, loaded, passes, context, cancelled):
        told.append((passes, context))
        yield from ()

    monkeypatch.setattr(loading, "refine_costs", refine)
    ready = planned(max_tokens=100, draft_tokens="auto", **options)
    ended = result(execute(ready, asked("loop")))
    [(passes, context)] = told
    assert context == ended.prompt_tokens + 50
    drafted = {width for width, rounds in enumerate(ended.by_length, 1) if rounds >= 2}
    assert set(passes) == (drafted if counted else set()) and len(drafted) > 1
    list(execute(planned(max_tokens=10, draft_tokens="auto"), asked("loop")))
    assert len(told) == 1  # a short answer asks for no costs


def test_calls_are_numbered_on_from_those_of_the_conversation(planned):
    def call(earlier):
        request = asked("use", tools=[TOOL], earlier_calls=earlier)
        (found,) = [e for e in execute(planned(), request) if isinstance(e, ToolCall)]
        return found

    assert (call(0).name, call(0).arguments) == ("f", '{"a": 1}')
    assert call(0) == call(0) != call(1)


def test_a_call_that_cannot_be_read_is_a_notice_and_text(planned):
    events = list(execute(planned(), asked("bad", tools=[TOOL])))
    assert Text("<tool_call>{broken}</tool_call>") in events
    warned = Notice("warning", "a tool call could not be read, and is shown as text")
    assert events.count(warned) == 1


def test_what_a_schema_came_to_is_in_the_result(planned):
    request = asked("hi", schema={"enum": ["ok"]})
    found = result(execute(planned(), request))
    assert found.constraint == {"kind": "schema", "complete": True, "ended_early": False}
    assert result(execute(planned(), asked("hi"))).constraint is None


def test_a_cancelled_run_ends_within_a_round_and_has_its_result(planned):
    texts: list[Text] = []
    found = None
    alone = planned(max_tokens=400, draft=False)
    for event in execute(alone, asked("loop"), lambda: len(texts) >= 4):
        match event:
            case Text():
                texts.append(event)
            case Result():
                found = event
    assert found and found.finish_reason == "interrupted"
    assert len(texts) == 4 and 4 <= len(found.completion_ids) <= 6  # one of them is held back


@pytest.mark.parametrize(
    ("request_", "options", "error"),
    [
        (asked(" "), {}, UsageError),
        (asked(WORDS), {"context": 16}, ContextError),
        (Request(tokens=[5] * 16), {"context": 16}, ContextError),
        (asked("hi", schema={"type": "strin"}), {}, UsageError),
        (asked("hi", schema={"type": "string"}, tools=[TOOL]), {}, UsageError),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_loaded(
    planned, monkeypatch, request_, options, error
):
    monkeypatch.setattr(loading, "load", lambda plan: pytest.fail("loaded"))
    with pytest.raises(error):
        next(iter(execute(planned(**options), request_)))


def test_a_prompt_of_token_ids_is_answered_in_token_ids(planned):
    """The same ones as in text; stop strings are for text."""
    text = result(execute(planned("tiny"), asked(WORDS)))
    session = shown(local.load(planned("tiny")))
    prompt = session.tokenizer.apply_chat_template(
        [{"role": "user", "content": WORDS}], add_generation_prompt=True
    )
    first = session.tokenizer.decode(list(text.completion_ids)[:1])
    events = list(execute(planned("tiny", stop=[first]), Request(tokens=prompt)))
    ids = [token for event in events if isinstance(event, Tokens) for token in event.ids]
    assert ids == list(text.completion_ids) == list(result(events).completion_ids)


def test_states_are_kept_once_the_reader_goes_on(planned):
    def run(ends):
        """The prompt's tokens that were read in a run that is iterated to its end or result."""
        events = execute(planned("tiny"), asked(WORDS))
        found = next(event for event in events if isinstance(event, Result))
        assert not ends or list(events) == []
        return found.prompt_tokens - found.cached_tokens

    process.hot().limit(0)
    cold = run(ends=False)
    assert cold > 50
    assert [run(ends=True), run(ends=False)] == [cold, 1]


def test_runs_that_take_turns_write_what_they_write_alone(planned):
    def begun(seed):
        ready = planned("tiny", temperature=1.0, seed=seed)
        shared = shown(local.load(ready))
        own = Session(shared.weights, shared.target, LookupDrafter())
        request = Request(tokens=list(range(5, 40)), max_tokens=16)
        return local.decode(local.Loaded(own), ready, request)

    alone = [result(begun(seed)).completion_ids for seed in (1, 2)]
    turns = zip(begun(1), begun(2), strict=False)
    both = [list(side) for side in zip(*turns, strict=True)]
    assert alone[0] != alone[1]
    for one, side in zip(alone, both, strict=True):
        ids = [token for event in side if isinstance(event, Tokens) for token in event.ids]
        assert ids == list(one)[: len(ids)] and len(ids) > 8
