"""The prompt is read in chunks that suit the device, and its states do not depend on them."""

from types import SimpleNamespace

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.engine import prefill
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.replay import Written, score
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target

PROMPT = [i * 7 % 60 + 3 for i in range(45)]


@pytest.fixture
def widths(monkeypatch):
    """How many tokens each pass of a target reads."""
    seen, forward = [], Target.forward

    def watched(self, tokens, cache):
        seen.append(int(tokens.size))
        return forward(self, tokens, cache)

    monkeypatch.setattr(Target, "forward", watched)
    return seen


def in_chunks(monkeypatch, size):
    monkeypatch.setitem(prefill.CHUNK, mx.DeviceType.cpu, size)


def read(family):
    target = Target(*zoo.build(family))
    cache = RollbackCache(target.model)
    run = Run(target, cache, None, Fixed(0), Request(PROMPT, 12), PhaseTimer())
    return list(run.tokens()), run


def test_a_gpu_reads_as_many_tokens_at_once_as_mlx_lm_and_a_cpu_fewer(monkeypatch):
    assert prefill.chunk_size() <= 256
    gpu = SimpleNamespace(type=mx.DeviceType.gpu)
    monkeypatch.setattr(mx, "default_device", lambda: gpu)
    assert prefill.chunk_size() == 2048


@pytest.mark.parametrize("family", ["llama", "gemma3", "llama4", "qwen3_5"])
def test_the_text_is_the_same_whatever_the_chunk(family, monkeypatch, widths):
    whole, _ = read(family)
    in_chunks(monkeypatch, 16)
    widths.clear()
    parts, _ = read(family)
    assert widths[:4] == [16, 16, 12, 1]
    assert parts[:3] == [[]] * 3  # after each an interrupt is heard
    assert [t for t in parts if t] == [t for t in whole if t]


def test_a_replay_reads_the_prompt_in_the_same_chunks(monkeypatch, widths):
    in_chunks(monkeypatch, 16)
    _, run = read("llama")
    read_by_run = widths[:4]
    widths.clear()
    score(run.target, PROMPT, Written(run.stats.completion, run.stats.passes), 3, Sampling())
    assert widths[:4] == read_by_run
