"""What a server says of itself."""

import pytest

from fixtures.loopback import Answer, serving, stream
from llm_specdec.backends.served import detection, keys, looking
from llm_specdec.errors import ResourceError, UsageError
from llm_specdec.pairings.registry import Served
from tests.support.served import plays

LLAMA = {
    "/v1/models": plays("llama_cpp/01-models"),
    "/slots": plays("llama_cpp/08-slots"),
    "/props": plays("llama_cpp/09-props"),
}
VLLM = {"/v1/models": plays("vllm/01-models"), "/version": plays("vllm/09-version")}


def found(answers, engine=detection.AUTO, key=None):
    with serving(answers) as server:
        return detection.detect(Served(server.url, engine, key=key))


@pytest.mark.parametrize(
    ("answers", "engine", "version", "models", "drafts"),
    [
        (LLAMA, "llama-server", None, ("smol",), True),
        (VLLM, "vllm", "0.32.0", ("smol",), None),
        (
            {"/v1/models": plays("mlx_vlm_dflash/01-models")},
            "mlx-vlm", "0.7.10", ("/models/q35",), None,
        ),
        ({"/v1/models": plays("mlx_lm/01-models")}, "mlx-lm", None, ("/models/smollm2",), None),
        (
            {"/v1/models": Answer(200, b"", {"Server": "BaseHTTP/0.6 Python/3.11.7"})},
            "mlx-lm", None, (), None,
        ),
        (
            {
                "/v1/models": Answer(200, b'{"data": [{"id": "q", "owned_by": "sglang"}]}'),
                "/get_server_info": Answer(
                    200, b'{"version": "0.5.23", "speculative_algorithm": "EAGLE"}'
                ),
            },
            "sglang", "0.5.23", ("q",), True,
        ),
        ({"/v1/models": Answer(200, b'{"data": [{"id": "q"}]}')}, "openai", None, ("q",), None),
    ],
)  # fmt: skip
def test_an_engine_shows_itself(answers, engine, version, models, drafts):
    told = found(answers)
    assert (told.engine, told.version, told.models, told.drafts) == (
        engine, version, models, drafts,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(401, b"{}"), UsageError, "wants a key"),
        (Answer(404, b"{}"), ResourceError, "often ends in /v1"),
        (Answer(503, b'{"error": "loading"}'), ResourceError, r"not ready \(503\): loading"),
        (Answer(429, b"", {"Retry-After": "7"}), ResourceError, "try again in 7 s"),
        (Answer(301, b"", {"Location": "https://x/v1"}), ResourceError, "sends on to https://x/v1"),
        (Answer(200, b'{"error": "nope"}'), ResourceError, "no list of models"),
        (
            Answer(200, b"<html>", {"Content-Type": "text/html"}),
            ResourceError,
            "answers with text/html",
        ),
    ],
)
def test_what_is_no_such_server_is_refused(answer, kind, words):
    with pytest.raises(kind, match=words):
        found({"/v1/models": answer})


@pytest.mark.parametrize("endless", [{"pause": 0.05}, {}])
def test_a_list_of_models_without_an_end_is_left(monkeypatch, endless):
    monkeypatch.setattr(looking, "SECONDS", 0.3)
    monkeypatch.setattr(looking, "MOST", 10_000)
    with pytest.raises(ResourceError, match="its answer does not end"):
        found({"/v1/models": stream(["x" * 100] * 1000, **endless)})


def test_a_model_is_the_only_one_or_named():
    place = Served("http://x/v1", "vllm")
    one = detection.Found("vllm", "", None, ("a",), None)
    two = detection.Found("vllm", "", None, ("a", "b"), None)
    assert detection.target_of(one, None, place) == "a"
    assert detection.target_of(two, "b", place) == "b"
    with pytest.raises(UsageError, match="serves a, b: name one"):
        detection.target_of(two, None, place)
    with pytest.raises(UsageError, match="has no model 'c'"):
        detection.target_of(two, "c", place)


def test_mlx_lm_is_asked_for_the_model_it_was_started_with():
    told = detection.Found("mlx-lm", "", None, ("a", "b"), None)
    assert detection.target_of(told, None, Served("http://x/v1", "mlx-lm")) == "default_model"


@pytest.mark.parametrize(
    "url", ["https://far.example/v1", "http://localhost:1/v1", "http://127.0.0.2/v1", "http://[::1]/v1"]
)  # fmt: skip
def test_a_key_may_go_to_https_and_to_this_machine(url):
    keys.check(Served(url, "vllm", key="k"))


def test_a_key_does_not_go_to_another_host_in_plain_http():
    place = "http://10.0.0.7:8000/v1"
    with pytest.raises(UsageError, match="--insecure"):
        keys.check(Served(place, "vllm", key="k"))
    keys.check(Served(place, "vllm", key="k", insecure=True))
    keys.check(Served(place, "vllm"))
