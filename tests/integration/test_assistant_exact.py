"""An assistant changes no token, and drafts what its place in the text lets it know: over every
kind of Gemma 4, whatever a run asks for, in 16 bits and in 4, warm and cold, after an interrupt."""

import json
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from mlx.nn.layers.quantized import quantize

from fixtures import assistant_checkpoints as checkpoints
from fixtures.assistant_checkpoints import POISON, TOKENS, following, rightly
from llm_specdec.constraints import masks
from llm_specdec.drafters.assistant import drafter as assistant
from llm_specdec.drafters.common.language_model import load
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from tests.support import warm
from tests.support.command_line import run, specdec

DEPTH, LENGTH = 3, 100  # the window is 16 tokens wide
PROMPT = [3, POISON, *range(10, 16), 4]
PENALTIES = Sampling(repetition_penalty=1.15, presence_penalty=0.5)


class EveryThird:
    """Only a third of the vocabulary may follow, which third by the sum of all tokens before."""

    def __init__(self):
        self.output = []

    def allowed(self, drafts):
        first = sum([*self.output, *drafts]) % 3
        return masks.only(range(first, TOKENS, 3), TOKENS)

    def commit(self, tokens):
        self.output += tokens


@pytest.fixture(scope="module", params=checkpoints.TARGETS)
def folder(request, tmp_path_factory):
    """Clusters are for the small ones, as published."""
    place, clusters = tmp_path_factory.mktemp("assistant"), request.param == "E4B"
    return checkpoints.disguise(place, request.param, clusters)


@pytest.fixture(scope="module")
def loaded(folder):
    target = load(folder / "target")
    return target, assistant.load(folder / "assistant", target)


def prepared(target, drafter, kv_bits=None, prefix=None, prompt=PROMPT, **asked):
    cache = RollbackCache(target.model, kv_bits=kv_bits, kv_group_size=32, max_draft=DEPTH)
    request = Request(prompt, LENGTH, **asked)
    policy = Fixed(DEPTH if drafter else 0)
    return Run(target, cache, drafter, policy, request, PhaseTimer(), prefix_cache=prefix)


def text(run):
    found = [token for part in run.tokens() for token in part]
    assert run.cache.length == len(PROMPT) + LENGTH - 1
    run.cache.close()
    return found


def test_drafts_are_right_where_they_can_be_and_only_there(loaded):
    run = prepared(*loaded)
    whole = [*PROMPT, *text(run)]
    start = len(PROMPT) - 1
    assert whole[start + 1 :] == [following(token) for token in whole[start:-1]]
    at, seen = len(PROMPT) + 1, set()
    for done in run.stats.passes:
        if done.drafted:
            assert done.committed == rightly(whole[:at], done.drafted) + 1
            seen.add(done.committed - 1)
            at += done.committed
    assert seen == {0, 1, 2, 3}


ASKED: dict[str, Callable[[], dict[str, Any]]] = {
    "penalties": lambda: {"sampling": PENALTIES},
    "mask": lambda: {"constraints": [EveryThird()]},
    "quantised cache": lambda: {"kv_bits": 8},
}


@pytest.mark.parametrize("name", ASKED)
def test_whatever_is_asked_for_the_text_is_the_targets(loaded, name):
    target, drafter = loaded
    shares = not all(layer.self_attn.has_kv for layer in target.model.layers)
    if name == "quantised cache" and shares:
        pytest.skip("layers that share keys are refused a quantised cache, drafted or not")
    drafted = prepared(target, drafter, **ASKED[name]())
    assert text(drafted) == text(prepared(target, None, **ASKED[name]()))
    assert drafted.stats.drafted and (drafted.stats.accepted or name == "mask")


@pytest.mark.parametrize("bits", [16, 4])
def test_in_fewer_bits_too(folder, bits):
    target = load(folder / "target")
    if bits == 16 and target.config.get("enable_moe_block"):
        pytest.skip("experts in 16 bits are nothing that MLX computes on a CPU")
    if bits == 16:
        target.model.set_dtype(mx.bfloat16)
    else:
        quantize(target.model, group_size=32, bits=4, class_predicate=_divides)
    drafter = assistant.load(folder / "assistant", target, bits=bits % 16 or None, group_size=32)
    drafted = prepared(target, drafter)
    assert text(drafted) == text(prepared(target, None))
    assert drafted.stats.accepted > 0


def _divides(_, module):
    return hasattr(module, "to_quantized") and module["weight"].shape[-1] % 32 == 0


def test_a_warm_run_is_a_cold_one(loaded):
    target, drafter = loaded

    def run(prefix=None, prompt=PROMPT):
        return prepared(target, warm.Noting(drafter), prefix=prefix, prompt=prompt)

    prefix = warm.Kept()
    first = warm.told(run(prefix), prefix)
    prompt = [*PROMPT, *first.tokens, 11, 12]
    again, cold = warm.outcome(run(prefix, prompt)), warm.outcome(run(None, prompt))
    assert again == cold and again.cached > len(PROMPT)


@pytest.mark.parametrize("method", ["propose", "extend"])
def test_an_interrupt_leaves_what_was_committed(loaded, method, monkeypatch):
    target, drafter = loaded
    whole = text(prepared(target, None))
    real, calls = getattr(drafter, method), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(drafter, method, interrupted)
    run = prepared(target, drafter)
    with pytest.raises(KeyboardInterrupt):
        for _ in run.tokens():
            pass
    done = run.stats.completion
    assert 0 < len(done) < LENGTH and done == whole[: len(done)]
    assert run.cache.length == len(PROMPT) + len(done) - 1
    run.cache.close()
    monkeypatch.undo()
    assert text(prepared(target, drafter)) == whole


def test_from_inspect_to_a_receipt(tmp_path):
    folder = checkpoints.disguise(tmp_path)
    pair = (folder / "target", folder / "assistant")
    assert json.loads(specdec("inspect", *pair, "--json").printed)["drafter"]["match"]
    added = specdec("add", "g", "--target", pair[0], "--drafter", pair[1]).printed
    assert "lane assistant" in added and "as seen from the last token" in added
    assert run("-m", "g", "-o", "max_tokens", "20", "-o", "draft_tokens", "3", "ab").printed
    (logged,) = json.loads(specdec("logs", "-n", "1", "--json").printed)
    assert logged["specdec"]["lane"]["kind"] == "assistant"
    assert logged["specdec"]["draft"]["accepted"] > 0
