"""Answers of servers, recorded and broken, through `execute`."""

import contextlib
import json
import time
from types import SimpleNamespace

import llm
import pytest
import vcr
import yaml

from fixtures.loopback import Answer, chunk, serving, stream
from llm_specdec import backends, receipts, settings
from llm_specdec.backends import Notice, Reasoning, Request, Result, Started, Text, ToolCall
from llm_specdec.backends.served import client, figures
from llm_specdec.errors import ContextError, ResourceError, SpecdecError, UsageError
from llm_specdec.pairings.registry import Pairing, Served
from tests.support.served import CASSETTES, cassette, plays, text
from tests.support.served import events as recorded

CHAT = "/v1/chat/completions"
HELLO = Request(messages=[{"role": "user", "content": "hello"}])
DONE = "data: [DONE]"
TEXT = [chunk({"content": "Hi"}), chunk({"content": " there"}, "stop"), DONE]
KEY = "sk-very-secret"


def asked_of(server, request=HELLO, engine="openai", cancelled=lambda: False, key=None, **options):
    """The events of a request to the server."""
    place = Served(server.url, engine, "0.1", key)
    pairing = Pairing("big", "smol", served=place)
    plan = backends.plan(pairing, None, settings.resolve(pairing, options=options))
    return list(backends.execute(plan, request, cancelled))


def answered(answer, **how):
    with serving({CHAT: answer}) as server:
        return asked_of(server, **how)


def text_of(events):
    return "".join(event.text for event in events if isinstance(event, Text))


def receipt(events):
    assert isinstance(events[-1], Result)
    return receipts.payload(events[-1])


@pytest.mark.parametrize(
    ("name", "engine", "draft", "method"),
    [
        ("vllm/04-stream-usage", "vllm", (6, 24, 17), None),
        ("llama_cpp/04-stream-usage", "llama-server", (None, 21, 16), None),
        ("mlx_vlm_dflash/04-stream-usage", "mlx-vlm", (23, 66, 0), "dflash"),
        ("mlx_vlm/04-stream-usage", "mlx-vlm", (None, None, None), None),
        ("mlx_lm/05-stream-usage", "mlx-lm", (None, None, None), None),
        ("sglang/04-stream-usage", "sglang", (6, 24, 18), None),
        ("lmstudio/04-stream-usage", "lmstudio", (None, 20, 15), "smol-draft"),
        ("ollama/04-stream-usage", "openai", (None, None, None), None),
        ("omlx/04-stream-usage", "openai", (None, None, None), None),
    ],
)
def test_the_receipt_has_the_servers_own_figures(name, engine, draft, method):
    events = answered(plays(name), engine=engine)
    found = receipt(events)
    assert isinstance(events[0], Started)
    assert tuple(found["draft"][key] for key in ("rounds", "drafted", "accepted")) == draft
    assert (found["engine"]["name"], found["engine"]["method"]) == (engine, method)
    usage = [json.loads(line[6:])["usage"] for line in recorded(name) if "prompt_tokens" in line][
        -1
    ]
    assert found["tokens"]["prompt"] == usage["prompt_tokens"]
    assert found["tokens"]["completion"] == usage["completion_tokens"] == 24
    assert found["lane"]["kind"] == "served"
    assert found["finish_reason"] == "length"
    assert (found["completion_sha256"], found["phases_ms"]["verify"]) == (None, None)
    json.dumps(found, allow_nan=False)


def test_answers_that_nobody_recorded_say_so():
    made = {path.parent.name for path in CASSETTES.rglob("*.yaml") if _says(path)}
    assert made == {"sglang", "lmstudio", "ollama", "omlx"}


def _says(path):
    return yaml.safe_load(path.read_text()).get("made", "").startswith("not recorded: made after")


@pytest.mark.parametrize("name", ["vllm/04-stream-usage", "omlx/04-stream-usage"])
def test_cassettes_are_in_the_format_of_pytest_recording(name):
    with vcr.use_cassette(str(cassette(name)), record_mode="none", match_on=("method", "path")):
        events = asked_of(SimpleNamespace(url="http://127.0.0.1:9/v1"))
    assert text_of(events).startswith("The quick brown fox")


def test_omlx_tells_its_own_times_and_what_it_had_cached():
    found = receipt(answered(plays("omlx/04-stream-usage")))
    assert found["engine"]["reported_ms"] == {"ttft": 213.0, "prefill": 200.0, "decode": 800.0}
    assert found["tokens"]["cached"] == 32


@pytest.mark.parametrize(
    ("name", "engine", "told"),
    [
        ("vllm/13-stop", "vllm", {"rounds": None, "drafted": None, "accepted": None}),
        ("llama_cpp/13-stop", "llama-server", {"rounds": None, "drafted": 8, "accepted": 6}),
    ],
)
def test_what_is_told_of_drafting_after_a_stop_string(name, engine, told):
    found = figures.of(engine, json.loads(text(name)))
    assert figures.counts(found) == told
    assert found.reported_ms["decode"] > 0


def test_a_histogram_becomes_acceptance_by_position():
    found = receipt(answered(plays("vllm/04-stream-usage"), engine="vllm"))
    assert found["draft"]["by_position"] == [6, 4, 4, 3]
    assert found["draft"]["mean_acceptance_length"] == pytest.approx(1 + 17 / 6)
    assert found["engine"]["version"] == "0.32.0"
    assert found["engine"]["reported_ms"]["queue"] == pytest.approx(0.0369, abs=1e-4)


def test_the_line_of_a_served_run_says_whose_figures_they_are():
    line = receipts.line(
        receipt(answered(plays("llama_cpp/04-stream-usage"), engine="llama-server"))
    )
    assert "acceptance 76.2% of drafted" in line
    assert "network included" in line
    assert line.endswith("llama-server 0.1[prefill=57.8ms decode=1861.7ms]")


def test_what_a_server_does_not_tell_is_null_and_the_line_copes():
    found = receipt(answered(stream(TEXT)))
    assert set(found["tokens"].values()) == {None}
    assert found["rates"] == {"prefill_tps": None, "decode_tps": None, "end_to_end_tps": None}
    assert receipts.line(found).startswith("– tokens · decode – tok/s")


def test_text_reasoning_and_whole_tool_calls():
    def call(index, **function):
        return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}

    lines = [
        chunk({"reasoning_content": "hm"}),
        chunk({"reasoning": " well"}),
        chunk({"content": "Look:"}),
        chunk(call(0, name="add", arguments='{"a"')),
        chunk(call(1, name="now", arguments="")),
        chunk(call(0, arguments=": 1}")),
        chunk({}, "tool_calls"),
        DONE,
    ]
    found = answered(stream(lines))[1:-1]
    assert found == [
        Reasoning("hm"), Reasoning(" well"), Text("Look:"),
        ToolCall("add", '{"a": 1}', "c0"), ToolCall("now", "{}", "c1"),
    ]  # fmt: skip


def test_a_call_that_is_no_json_is_shown_as_text():
    part = {"index": 0, "function": {"name": "add", "arguments": "{oh"}}
    found = answered(stream([chunk({"tool_calls": [part]}, "tool_calls"), DONE]))
    assert Notice("warning", "a tool call could not be read, and is shown as text") in found
    assert text_of(found) == "add {oh"


def test_a_server_that_gives_odd_figures_gives_none():
    odd = {"prompt_tokens": "9", "completion_tokens": 2.5, "total_tokens": None}
    metrics = {"queue_time_ms": "long", "speculative_decoding": {"acceptance_histogram": ["a"]}}
    lines = [chunk({"content": "Hi"}, "stop"), chunk({}, usage=odd, metrics=metrics), DONE]
    found = receipt(answered(stream(lines), engine="vllm"))
    assert (found["tokens"]["prompt"], found["tokens"]["completion"]) == (None, None)
    assert (found["draft"]["rounds"], found["engine"]["reported_ms"]) == (None, {})


def test_a_chunk_without_a_delta_is_nothing():
    empty = 'data: {"id": "a", "choices": [{"index": 0, "delta": null}]}'
    assert text_of(answered(stream([empty, *TEXT]))) == "Hi there"


def test_a_schema_is_sent_and_a_cut_answer_is_said():
    schema = {"type": "object"}
    request = Request(messages=HELLO.messages, schema=schema)
    with serving({CHAT: stream([chunk({"content": '{"a"'}, "length"), DONE])}) as server:
        found = asked_of(server, request)
    sent = server.asked[0][1]["response_format"]
    assert sent["json_schema"]["schema"] == schema
    assert Notice("warning", "the JSON is cut and not valid") in found
    assert receipt(found)["constraint"]["complete"] is False


def test_the_usage_chunk_is_always_asked_for_and_no_key_is_made_up(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving({CHAT: stream(TEXT)}) as server:
        assert text_of(asked_of(server)) == "Hi there"
    ((_, body, headers),) = server.asked
    assert body["stream_options"] == {"include_usage": True}
    assert KEY not in str(headers)
    assert "authorization" not in headers


def test_a_key_of_llm_keys_is_sent():
    (llm.user_dir() / "keys.json").write_text(json.dumps({"mine": KEY}))
    with serving({CHAT: stream(TEXT)}) as server:
        found = asked_of(server, key="mine")
    assert server.asked[0][2]["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(receipt(found))


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}é"])
def test_a_key_that_no_header_can_hold_is_an_error_that_does_not_show_it(key):
    (llm.user_dir() / "keys.json").write_text(json.dumps({"mine": key}))
    with pytest.raises(UsageError, match="the key mine cannot be sent") as caught:
        answered(stream(TEXT), key="mine")
    assert KEY not in str(caught.value)


def test_a_key_that_llm_does_not_have_is_an_error():
    with pytest.raises(UsageError, match="llm keys set gone"):
        answered(stream(TEXT), key="gone")


PAGE = Answer(200, b"<html>Sign in</html>", {"Content-Type": "text/html"})


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (plays("vllm/20-err-unknown-model"), UsageError, "does not serve smol (404): The model"),
        (plays("vllm/21-err-too-long"), ContextError, "too long for"),
        (plays("llama_cpp/22-err-too-long-stream"), ContextError, "too long for"),
        (plays("llama_cpp/23-err-bad-param"), UsageError, "type must be number"),
        (plays("mlx_lm/20-err-unknown-model"), UsageError, "Cannot find an appropriate"),
        (plays("mlx_vlm/20-err-unknown-model"), UsageError, "(400): Failed to load model"),
        (plays("mlx_vlm/23-err-bad-param"), UsageError, "valid number"),
        (Answer(413, b"big"), ContextError, "(413)"),
        (Answer(401, b"{}"), UsageError, "wants a key (401): llm keys set"),
        (Answer(429, b"{}", {"Retry-After": "7"}), ResourceError, "try again in 7 s"),
        (Answer(500, b'{"error": "boom"}'), ResourceError, "failed (500): boom"),
        (Answer(502, b"<html>Bad gateway</html>"), ResourceError, "a web page, as of a proxy"),
        (Answer(503, b'{"error": {"message": "loading"}}'), ResourceError, "not ready (503)"),
        (PAGE, ResourceError, "answered with text/html"),
        (stream([TEXT[0]]), ResourceError, "the stream ended before the answer did"),
        (stream([TEXT[0]], cut=True), ResourceError, "broke off"),
        (stream([TEXT[0], "data: {oh"]), ResourceError, "broke off"),
        (stream([TEXT[0], 'data: {"error": {"message": "500!"}}']), ResourceError, "500!"),
        (stream([TEXT[0], "data: [1, 2]"]), ResourceError, "broke off: not what was expected"),
        (stream([chunk({}, "stop", usage="many")]), ResourceError, "not what was expected"),
        (Answer(404, b"<html>nginx</html>"), ResourceError, "a web page, as of a proxy: is the ad"),
        (
            Answer(302, b"", {"Location": "http://127.0.0.1:9/other"}),
            ResourceError, "sends on to http://127.0.0.1:9/other (302)",
        ),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_line(answer, kind, words):
    with pytest.raises(SpecdecError) as caught:
        answered(answer)
    assert type(caught.value) is kind
    assert words in str(caught.value)


def test_nothing_is_asked_twice():
    with serving({CHAT: Answer(500, b"{}")}) as server, pytest.raises(ResourceError):
        asked_of(server)
    assert len(server.asked) == 1


def test_a_connection_that_fails_is_tried_again(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with serving({}) as server:
        pass
    with pytest.raises(ResourceError, match="is the server running"):
        asked_of(server)
    assert len(pauses) == client.TRIES - 1


def test_a_key_is_not_in_what_a_server_says_of_it():
    (llm.user_dir() / "keys.json").write_text(json.dumps({"mine": KEY}))
    answer = Answer(401, json.dumps({"error": f"wrong key {KEY}"}).encode())
    with pytest.raises(UsageError) as caught:
        answered(answer, key="mine")
    assert "refuses the key mine (401): wrong key …" in str(caught.value)


def test_silence_ends(monkeypatch):
    monkeypatch.setattr(client, "NEXT", 0.2)
    with pytest.raises(ResourceError, match="nothing came for 0 s"):
        answered(stream(TEXT, pause=1.0))


@pytest.mark.parametrize("after", [0, 3])
def test_cancelling_closes_the_connection_at_once(after):
    """Before the first chunk, and between two."""
    lines = [chunk({"content": "x"})] * 100
    seen: list[backends.Event] = []
    with serving({CHAT: stream(lines, pause=0.1)}) as server:
        began = time.monotonic()
        place = Pairing("big", "smol", served=Served(server.url, "openai"))
        plan = backends.plan(place, None, settings.resolve(place))
        for event in backends.execute(plan, HELLO, lambda: len(seen) > after):
            seen.append(event)  # noqa: PERF402  the run looks at it meanwhile
        assert time.monotonic() - began < 5  # of the ten that the stream takes
        assert server.gone.wait(2)
    assert receipt(seen)["finish_reason"] == "interrupted"


def test_closing_the_iterator_closes_the_connection():
    lines = [chunk({"content": "x"})] * 100
    with serving({CHAT: stream(lines, pause=0.1)}) as server:
        place = Pairing("big", "smol", served=Served(server.url, "openai"))
        plan = backends.plan(place, None, settings.resolve(place))
        with contextlib.closing(client.execute(plan, HELLO, lambda: False)) as events:
            assert [next(events), next(events)] == [Started(), Text("x")]
        assert server.gone.wait(2)


def test_recordings_hold_no_key():
    names = list(CASSETTES.rglob("*.yaml"))
    assert len(names) > 15
    for path in names:
        text = path.read_text().lower()
        assert "authorization" not in text and "bearer " not in text, path
        assert "/home/" not in text, path
