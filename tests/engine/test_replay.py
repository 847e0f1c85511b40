"""A replay tells a tie by width from a fault, in 16 bits too."""

import dataclasses

import mlx.core as mx
import pytest

from fixtures import parity, zoo
from llm_specdec.engine import replay
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.replay import Written
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
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


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("fault", parity.FAULTS)
def test_a_fault_is_called_broken(fault, dtype):
    target = in_bits("llama", dtype)
    plain = [written(target, prompt) for prompt in PROMPTS]
    wrong = []
    with parity.fault(fault):
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


class Level(Target):
    """Its two best logits are always equal."""

    def forward(self, tokens, cache):
        logits = super().forward(tokens, cache)
        best = mx.argmax(logits, axis=-1)[:, None]
        columns = mx.arange(logits.shape[-1])[None]
        twin = (best + 1) % logits.shape[-1]
        return mx.where(columns == twin, mx.max(logits, axis=-1, keepdims=True), logits)


def test_of_two_equal_logits_a_reference_may_take_either_and_no_third():
    target = Level(*zoo.build("llama"))
    plain = written(target, PROMPTS[0], sampling=Sampling())
    row = replay.score(target, PROMPTS[0], plain, 0, Sampling())
    twins = [i for i in range(row.size) if row[i].item() == mx.max(row).item()]
    assert len(twins) == 2 and plain.tokens[0] in twins
    for token, exact in ((sum(twins) - plain.tokens[0], True), (max(twins) + 3, False)):
        other = dataclasses.replace(plain, tokens=[token % row.size, *plain.tokens[1:]])
        part = replay.compare(target, PROMPTS[0], other, plain, Sampling())
        assert part and (part.position, part.gap, part.exact) == (0, 0.0, exact)
        part = replay.compare(target, PROMPTS[0], plain, other, Sampling())
        assert part and not part.exact  # ours takes the first
