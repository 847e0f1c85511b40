"""A replay tells a tie by width from a fault, in 16 bits too."""

import dataclasses
from unittest.mock import patch

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.engine import replay
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.replay import Written
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling import accept, logits_processors
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target

PROMPTS = [[5, 9, 2, 7, 1, 3 + n, 8, 4] for n in range(6)]
PENALTIES = Sampling(repetition_penalty=1.3, presence_penalty=0.5, penalty_scope="mlx")
TOKENS = 40


def in_bits(family, dtype):
    model, config = zoo.build(family)
    model.set_dtype(dtype)
    return Target(model, config)


def written(target, prompt, drafter=None, length=0, sampling=PENALTIES):
    cache = RollbackCache(target.model, max_draft=max(length, 1))
    request = Request(prompt, TOKENS, sampling=sampling)
    run = Run(target, cache, drafter, Fixed(length), request, PhaseTimer())
    tokens = [token for part in run.tokens() for token in part]
    cache.close()
    return Written(tokens, run.stats.passes)


def differences(target, rate=0.7, length=3):
    """(what parted, prompts) of drafted texts from plain ones."""
    found = []
    for seed, prompt in enumerate(PROMPTS):
        plain = written(target, prompt)
        drafter = zoo.Scripted([*prompt, *plain.tokens], rate=rate, seed=seed)
        drafted = written(target, prompt, drafter, length)
        if part := replay.compare(target, prompt, plain, drafted, PENALTIES):
            found.append(part)
    return found


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16], ids=str)
@pytest.mark.parametrize("family", ["llama", "qwen3_5", "gemma3", "lfm2"])
def test_what_parts_by_width_alone_is_exact(family, dtype):
    assert [part for part in differences(in_bits(family, dtype)) if not part.exact] == []


class Widthwise(Target):
    """Rounds otherwise in wide passes, as kernels do: a hundredth of a logit, by column."""

    def forward(self, tokens, cache):
        logits = super().forward(tokens, cache)
        wide = tokens.shape[0] > 1
        return logits + 0.3 * mx.sin(mx.arange(logits.shape[-1])) if wide else logits


def test_a_device_whose_rounding_depends_on_the_width_is_exact_at_its_width():
    model, config = zoo.build("llama")
    found = differences(Widthwise(model, config))
    assert len(found) > 2 and all(part.exact for part in found)


def accepting_all(rows, drafts):
    own = mx.argmax(rows, axis=-1).astype(mx.int32)
    return accept.Verdict(mx.concatenate([drafts, own[-1:]]), mx.array(drafts.shape[0]))


def late(rows, history, drafts, sampling, first=0):
    return penalise(rows, history, drafts, sampling, first=max(first - 1, -1))


penalise = logits_processors.penalise


def stale(self, length):
    """Leaves the key of a rejected draft token in the place of the last one kept."""
    rejected = self.length > length
    rollback(self, length)
    if rejected:
        for layer in self.layers:
            if getattr(layer, "keys", None) is not None:
                layer.keys[..., length - 1, :] = layer.keys[..., length, :]


rollback = RollbackCache.rollback


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("fault", ["accepts all", "history off by one", "stale cache row"])
def test_a_fault_is_called_broken(fault, dtype):
    target = in_bits("llama", dtype)
    plain = [written(target, prompt) for prompt in PROMPTS]
    faults = {
        "accepts all": patch.object(accept, "greedy", accepting_all),
        "history off by one": patch.object(
            logits_processors, "penalise", lambda *a, **k: late(*a, **k)
        ),
        "stale cache row": patch.object(RollbackCache, "rollback", stale),
    }
    wrong = []
    with faults[fault]:
        for seed, (prompt, text) in enumerate(zip(PROMPTS, plain, strict=True)):
            drafter = zoo.Scripted([*prompt, *text.tokens], rate=0.6, seed=seed)
            wrong.append(written(target, prompt, drafter, 3))
    found = [
        replay.compare(target, prompt, one, other, PENALTIES)
        for prompt, one, other in zip(PROMPTS, plain, wrong, strict=True)
    ]
    parted = [part for part in found if part]
    assert parted and not [part for part in parted if part.exact]


def test_a_text_that_ends_early_is_never_exact():
    target = in_bits("llama", mx.float32)
    plain = written(target, PROMPTS[0])
    short = dataclasses.replace(plain, tokens=plain.tokens[:-1], rounds=plain.rounds[:-1])
    assert replay.compare(target, PROMPTS[0], plain, plain, PENALTIES) is None
    part = replay.compare(target, PROMPTS[0], plain, short, PENALTIES)
    assert part and not part.exact and part.position == TOKENS - 1
