"""Two servers behind a bench: by recorded counters, and answers made here."""

import contextlib
import json
import re

import pytest

from fixtures.loopback import Answer, chunk, serving, stream
from llm_specdec.backends.served import counters
from llm_specdec.bench import machine
from llm_specdec.bench.endpoints import Endpoints
from tests.support import chains
from tests.support.command_line import specdec, write_registry
from tests.support.served import text

QUICK = ("--class", "prose", "--runs", "2", "--max-tokens", "8")
USAGE = {"prompt_tokens": 44, "completion_tokens": 6, "total_tokens": 50}
RUNS = 1 + 2  # of each configuration: parity, and the timed ones


def answer(text, pause=0.0):
    """A streamed answer of three chunks, with vLLM's record of its drafting."""
    drafting = {"num_spec_steps": 2, "num_draft_tokens": 6, "num_accepted_draft_tokens": 4}
    metrics = {"speculative_decoding": {**drafting, "acceptance_histogram": [0, 0, 2, 0]}}
    parts = [chunk({"content": part}) for part in text.partition(" ")]
    end = [chunk({}, "stop"), chunk({}, None, usage=USAGE, metrics=metrics), "data: [DONE]"]
    return stream([*parts, *end], pause=pause)


class Counting(dict[str, Answer]):
    """Answers of a server that counts what it writes, and `others` besides."""

    def __init__(self, said, others=0):
        super().__init__({"/v1/chat/completions": said})
        self.asked, self.others = 0, others

    def get(self, path, otherwise=None):
        if path == "/metrics":
            written = self.asked * USAGE["completion_tokens"] + bool(self.asked) * self.others
            lines = f'vllm:generation_tokens_total{{engine="0"}} {written}.0\n'
            rounds = f"vllm:spec_decode_num_drafts_total {2 * self.asked}.0\n"
            return Answer(body=(lines + rounds).encode())
        self.asked += path.endswith("completions")
        return super().get(path, otherwise)


@pytest.fixture
def servers():
    """name → the server of the last bench."""
    return {}


@pytest.fixture
def bench(monkeypatch, llm_user, servers):
    # Servers on this machine keep it busy, and are what is measured.
    monkeypatch.setattr(machine, "others_now", lambda: 0.9)
    monkeypatch.setattr(machine.Watch, "others", lambda watch: 0.9)
    with contextlib.ExitStack() as stack:

        def run(plain, drafting, *options, settings="", served="", context="60"):
            text = ""
            for name, answers in (("plain", plain), ("fast", drafting)):
                server = stack.enter_context(serving(answers))
                url, servers[name] = server.url, server
                text += f'[pairings.{name}]\ntarget = "m"\n[pairings.{name}.served]\n'
                text += f'url = "{url}"\nengine = "vllm"\n{served}'
            write_registry(f"{text}[pairings.fast.settings]\n{settings}\n")
            return specdec(
                "bench", "fast", "--against", "plain", *QUICK, "--context", context, *options
            )

        yield run


def test_two_endpoints_are_compared_by_text_and_by_their_own_counters(bench):
    slow, fast = Counting(answer("one two", 0.02)), Counting(answer("one two", 0.002))
    found = json.loads(bench(slow, fast, "--no-gate", "--json").printed)
    (case,) = found["cases"]
    baseline, own = case["configs"]
    assert [baseline["config"], own["config"]] == ["plain", "fast"]
    assert own["parity"]["status"] == "identical"
    assert own["parity"]["sha256_a"] == own["parity"]["sha256_b"]
    assert len(own["decode_tps"]["runs"]) == 2 and own["gain"]["decode_tps"]["median_pct"] > 0
    assert own["acceptance_rate"] == 4 / 6 and own["mean_acceptance_length"] == 3
    assert found["verdict"]["status"] == "measured"
    counted = {"written": 6 * RUNS, "rounds": 2 * RUNS}
    assert found["verdict"]["servers"] == [
        {"configs": [name], "counters": counted, "foreign_tokens": 0} for name in ("plain", "fast")
    ]


def test_no_timed_prompt_begins_as_another_does(bench, servers):
    done = bench(Counting(answer("a b")), Counting(answer("a b")), "--no-gate")
    assert done.exit_code == 0
    assert "server of plain: written 18, rounds 6" in done.stdout
    prompts = [
        body["messages"][-1]["content"]
        for server in servers.values()
        for path, body, _ in server.asked
        if path.endswith("completions")
    ]
    parity = [prompt for prompt in prompts if "\n\n" not in prompt[:10]]
    assert len(parity) == 2 and parity[0] == parity[1]
    timed = [prompt.partition(".")[0].split(" ") for prompt in prompts if prompt not in parity]
    assert {run for run, _ in timed} == {"a1", "a2", "b1", "b2"}
    (mark,) = {mark for _, mark in timed}
    assert Endpoints([], 8)._mark != mark  # nor as one of an earlier bench


def test_without_a_tokenizer_the_length_of_a_prompt_is_about_that(bench):
    done = bench(Counting(answer("a b")), Counting(answer("a b")), "--no-gate")
    assert re.search(r"prose, about \d\d prompt tokens", done.stdout)


def test_with_a_tokenizer_the_tokens_of_a_timed_prompt_are_counted(bench, servers, tmp_path):
    folder = tmp_path / "bytes"  # a token each byte
    chains.write_tokenizer(folder, [], chains.template({}, ""))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    sides = (Counting(answer("a b")), Counting(answer("a b")))
    named = f'tokenizer = "{folder}"\n'
    done = bench(*sides, "--no-gate", "--json", served=named, context="200")
    (case,) = json.loads(done.printed)["cases"]
    frame = len("user\nassistant\n\n") + 3
    timed = max(
        len(body["messages"][0]["content"]) for _, body, _ in servers["plain"].asked if body
    )
    assert case["counted"] and case["prompt_tokens"] == frame + timed
    assert 180 < case["prompt_tokens"] <= 200


def test_texts_that_differ_decide_nothing(bench):
    done = bench(Counting(answer("one two")), Counting(answer("one too")))
    assert done.exit_code == 3
    assert "parity: the texts differ at character 5" in done.stdout
    assert "undecided: greedy texts differ, and a server does not show" in done.stdout


def test_a_server_that_works_for_others_decides_nothing(bench):
    done = bench(Counting(answer("a b", 0.01)), Counting(answer("a b"), others=50))
    assert done.exit_code == 3
    assert "the server of fast wrote 50 tokens that this bench did not ask for" in done.stdout


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        (["--warm"], "", "fast is served: leave --lanes and --warm out"),
        ([], "top_p = 0.5", "plain and fast differ in top_p: one change per bench"),
        (["--against", "none"], "", "fast is served, and its server drafts or does not"),
        (["--against", "fast"], "", "fast against itself shows nothing"),
    ],
)
def test_what_makes_no_comparison_is_refused(bench, options, settings, said):
    done = bench(Counting(answer("a")), Counting(answer("a")), *options, settings=settings)
    assert done.exit_code == 2 and said in done.error


@pytest.mark.parametrize(
    ("name", "engine", "found"),
    [
        ("vllm/07-metrics", "vllm", {"written": 84, "rounds": 22, "drafted": 88, "accepted": 65}),
        (
            "llama_cpp/07-metrics",
            "llama-server",
            {"written": 84, "rounds": 20, "drafted": 69, "accepted": 52},
        ),
    ],
)
def test_counters_of_real_servers(name, engine, found):
    assert counters.counted(engine, text(name)) == found


def test_a_server_that_started_anew_counted_nothing():
    assert counters.grown({"written": 9, "rounds": 2}, {"written": 3, "rounds": 2}) == {}
