"""Settings in the engine's own words; what it cannot honour is an error that names it."""

import pytest

from llm_specdec import backends, settings
from llm_specdec.backends import Request
from llm_specdec.backends.served import asking
from llm_specdec.backends.served.engines import ENGINES
from llm_specdec.errors import UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing, Served

HELLO = Request(messages=[{"role": "user", "content": "hello"}])


def body(engine, request=HELLO, **options):
    pairing = Pairing("big", "smol", served=Served("http://x/v1", engine))
    plan = backends.plan(pairing, None, settings.resolve(pairing, options=options))
    return asking.body(plan, request, ENGINES[engine])


def test_the_registry_knows_the_same_engines():
    assert tuple(ENGINES) == registry.ENGINES


@pytest.mark.parametrize(
    ("engine", "options", "sent"),
    [
        ("vllm", {"top_k": 20}, {"top_k": 20}),
        ("vllm", {}, {"temperature": 0.0, "top_k": -1, "top_p": 1.0, "repetition_penalty": 1.0}),
        ("llama-server", {}, {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0}),
        (
            "llama-server",
            {"repetition_penalty": 1.1},
            {"repeat_penalty": 1.1, "repeat_last_n": 1 << 20},
        ),
        (
            "llama-server",
            {"presence_penalty": 1.0, "penalty_scope": "mlx"},
            {"presence_penalty": 1.0, "repeat_last_n": 20},
        ),
        ("llama-server", {"prefix_cache": False}, {"cache_prompt": False}),
        ("mlx-lm", {"draft": False}, {"num_draft_tokens": 0}),
        ("mlx-lm", {"draft_tokens": 3}, {"num_draft_tokens": 3}),
        ("sglang", {"seed": 0}, {"seed": 0, "return_spec_tokens_details": True}),
        ("lmstudio", {"repetition_penalty": 1.1}, {"repeat_penalty": 1.1}),
        ("openai", {"stop": "END", "max_tokens": 5}, {"stop": ["END"], "max_tokens": 5}),
        ("vllm", {"thinking": "off"}, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("vllm", {"thinking": "low"}, {"chat_template_kwargs": {"reasoning_effort": "low"}}),
    ],
)
def test_settings_are_sent_in_the_engines_words(engine, options, sent):
    found = body(engine, **options)
    assert {key: found.get(key) for key in sent} == sent


def test_only_what_is_set_goes_to_an_engine_that_may_not_know_more():
    assert set(body("openai")) == {"model", "messages", "stream", "stream_options", "temperature"}


@pytest.mark.parametrize(
    ("engine", "options", "named"),
    [
        ("openai", {"top_k": 20}, "top_k 20"),
        ("openai", {"min_p": 0.1}, "min_p 0.1"),
        ("openai", {"repetition_penalty": 1.1}, "repetition_penalty 1.1"),
        ("sglang", {"repetition_penalty": 1.1}, "it counts over the answer alone; unset it"),
        ("openai", {"thinking": "off"}, "thinking"),
        ("openai", {"chat_template_kwargs": {"a": 1}}, "chat_template_kwargs"),
        ("vllm", {"kv_bits": 8}, "kv_bits 8"),
        ("vllm", {"context": 4096}, "context 4096"),
        ("vllm", {"thinking_budget": 9}, "thinking_budget 9"),
        ("vllm", {"draft": False}, "draft false"),
        ("vllm", {"draft_tokens": 4}, "draft_tokens 4"),
        ("vllm", {"prefix_cache": False}, "prefix_cache false"),
        ("vllm", {"keep_alive": "10m"}, "keep_alive"),
        ("vllm", {"presence_penalty": 1, "penalty_scope": "mlx"}, "set penalty_scope=card"),
        ("llama-server", {"presence_penalty": 1}, "set penalty_scope=mlx"),
        ("llama-server", {"seed": 2**40}, "seed"),
        ("mlx-lm", {"stop": "END"}, "stop"),
        ("mlx-vlm", {"stop": "END"}, "stop"),
    ],
)
def test_what_an_engine_cannot_honour_is_named(engine, options, named):
    with pytest.raises(UsageError) as caught:
        body(engine, **options)
    assert f"{engine} cannot honour" in str(caught.value)
    assert named in str(caught.value)
    assert "-o" in str(caught.value)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(tokens=[1, 2]), "token ids"),
        (Request(messages=[{"role": "user", "content": " "}]), "empty"),
        (Request(messages=HELLO.messages, schema={}), "no schema"),
    ],
)
def test_requests_that_a_server_cannot_take_are_refused(request_, words):
    with pytest.raises(UsageError, match=words):
        body("mlx-lm", request_)


def test_earlier_calls_and_thinking_are_in_openais_form():
    call = {"type": "function", "id": "c", "function": {"name": "f", "arguments": {"a": 1}}}
    said = {"role": "assistant", "content": "", "reasoning": "hm", "tool_calls": [call]}
    result = {"role": "tool", "name": "f", "tool_call_id": "c", "content": "2"}
    request = Request(messages=[*HELLO.messages, said, result])
    _, sent, answer = body("vllm", request)["messages"]
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
    assert sent["reasoning_content"] == "hm"
    assert answer == {"role": "tool", "tool_call_id": "c", "content": "2"}
    assert "reasoning_content" not in body("openai", request)["messages"][1]
