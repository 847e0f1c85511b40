"""A warm run writes, drafts and counts what a cold one does, for every drafter and cache kind."""

import contextlib
from itertools import product

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.engine.sampling import accept
from llm_specdec.engine.sampling.logits_processors import Sampling
from tests.support import warm
from tests.support.warm import PROMPT, SYSTEM, TURN

FULL_ATTENTION = ("llama", "qwen3", "deepseek_v3", "glm4_moe", "mimo")
STATELESS = ("none", "lookup")
KINDS = ("llama", "gemma3", "llama4", "qwen3_5")  # full, windows, chunks, recurrent


def cut_anywhere(family, lane):
    """Full attention alone, and a drafter that sees all of its context."""
    return family in FULL_ATTENTION and "sliding" not in lane


def variants(answer):
    """What comes after PROMPT was answered: prompt, and the positions that can be reused where
    states can be cut, and where only those at boundaries are there."""
    end = len(PROMPT) + len(answer) - 1
    return {
        "the same again": (PROMPT, len(PROMPT) - 1, TURN),
        "one turn more": ([*PROMPT, *answer, 60, 61, 62], end, end),
        "another answer in the history": ([*PROMPT[:38], 90, 60, 61], 37, TURN),
        "another suffix": ([*PROMPT[:30], 90, 91, 92], 29, SYSTEM),
        "shorter": (PROMPT[:25], 24, SYSTEM),
        "another system prompt": ([90, *PROMPT[1:]], 0, 0),
    }


VARIANTS = tuple(variants([]))


def check(family, lane, names=VARIANTS, **run):
    prefix = warm.Kept()
    first = warm.told(warm.prepared(family, lane, PROMPT, prefix, **run), prefix)
    found = variants(first.tokens)
    for name in names:
        prompt, cut, exact = found[name]
        cold = warm.outcome(warm.prepared(family, lane, prompt, **run))
        again = warm.outcome(warm.prepared(family, lane, prompt, prefix, **run))
        assert again == cold, name
        assert again.cached == (cut if cut_anywhere(family, lane) else exact), name


PAIRS = [pair for pair in product(zoo.FAMILIES, warm.LANES) if warm.has(*pair)]
# Without a drafter's state one family of each kind is enough.
ENOUGH = [(family, lane) for family, lane in PAIRS if lane not in STATELESS or family in KINDS]


@pytest.mark.parametrize(("family", "lane"), ENOUGH)
def test_warm_is_cold(family, lane):
    """Variants take turns, so that every drafter kind meets each of them on some family."""
    turn = list(zoo.FAMILIES).index(family) + warm.LANES.index(lane)
    check(family, lane, [VARIANTS[turn % len(VARIANTS)]])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "lane"), PAIRS)
def test_warm_is_cold_in_every_combination(family, lane):
    check(family, lane)


@pytest.mark.parametrize("lane", ["none", "model", "mtp", "dflash", "eagle3"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_a_quantised_cache_is_kept_too(family, lane):
    check(family, lane, ["the same again", "another suffix"], kv_bits=8)


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_a_sampled_run_under_penalties_is_the_same(family):
    hot = Sampling(temperature=0.9, top_k=20, repetition_penalty=1.2, presence_penalty=0.3)
    check(family, "model", ["the same again", "another suffix"], sampling=hot)


@pytest.mark.parametrize(("family", "lane"), product(KINDS, ["none", "model"]))
def test_a_chat_goes_on_from_turn_to_turn(family, lane):
    """Each turn starts from what the last one left, itself a warm run; nothing kept is changed
    by the runs that use it."""
    prefix, prompt = warm.Kept(), PROMPT
    for turn in range(4):
        now = warm.told(warm.prepared(family, lane, prompt, prefix), prefix)
        assert now == warm.outcome(warm.prepared(family, lane, prompt))
        assert (now.cached > 0) == (turn > 0)
        prompt = [*prompt, *now.tokens, 70 + turn, 50, 51]
    again = warm.outcome(warm.prepared(family, lane, PROMPT, prefix))
    assert again == warm.outcome(warm.prepared(family, lane, PROMPT)) and again.cached


@pytest.mark.parametrize(
    ("family", "lane"), product(KINDS, ["model", "mtp", "dflash", "dspark", "eagle3"])
)
def test_a_kept_state_is_never_written_to(family, lane):
    prefix = warm.Kept()
    warm.told(warm.prepared(family, lane, PROMPT, prefix), prefix)
    kept = prefix.entries
    assert kept
    before = [[mx.array(a) for a in (*entry.target, *entry.drafter)] for entry in kept]
    mx.eval(before)
    for prompt in (PROMPT, [*PROMPT[:30], 90, 91], PROMPT[:25]):
        warm.outcome(warm.prepared(family, lane, prompt, prefix, tokens=30))
    for entry, arrays in zip(kept, before, strict=True):
        pairs = zip((*entry.target, *entry.drafter), arrays, strict=True)
        assert all(mx.array_equal(a, b) for a, b in pairs)


# Negative controls: the comparison sees a state that is wrong


@pytest.mark.parametrize("family", KINDS)
def test_the_state_of_another_token_is_caught(family):
    prefix, prompt = warm.Kept(), [*PROMPT, *[0] * 20]
    warm.told(warm.prepared(family, "none", [*PROMPT[:-2], 90, 9], prefix), prefix)
    wrong = prefix.changed(tokens=tuple(prompt[: prefix.entries[-1].length + 1]))
    stale = warm.outcome(warm.prepared(family, "none", prompt, wrong))
    assert stale.cached
    assert stale != warm.outcome(warm.prepared(family, "none", prompt))


@pytest.mark.parametrize("lane", ["model", "mtp", "dflash", "sliding dflash", "dspark", "eagle3"])
def test_a_drafters_state_of_another_text_is_caught(lane):
    """The text is right all the same: the drafter only proposes."""
    prefix, other = warm.Kept(), warm.Kept()
    warm.told(warm.prepared("llama", lane, PROMPT, prefix), prefix)
    warm.told(warm.prepared("llama", lane, PROMPT[::-1], other), other)
    wrong = prefix.changed(drafter=other.entries[-1].drafter)
    prompt = [*wrong.entries[-1].tokens, 60]
    stale = warm.outcome(warm.prepared("llama", lane, prompt, wrong))
    cold = warm.outcome(warm.prepared("llama", lane, prompt))
    assert stale.cached and stale.tokens == cold.tokens
    assert stale.proposed != cold.proposed


# Ends


@pytest.mark.parametrize(
    ("family", "lane"), product(KINDS, ["none", "model", "mtp", "dflash", "dspark", "eagle3"])
)
def test_an_interrupted_run_leaves_a_sound_state(family, lane, monkeypatch):
    """Ctrl-C while the host waits for a verify pass, and a reader that stops reading."""
    fetch, calls = accept.Verdict.fetch, []

    def interrupted(verdict):
        calls.append(verdict)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fetch(verdict)

    prefix = warm.Kept()
    run = warm.prepared(family, lane, PROMPT, prefix)
    monkeypatch.setattr(accept.Verdict, "fetch", interrupted)
    stream = run.tokens()
    with contextlib.suppress(KeyboardInterrupt):
        while len(run.stats.completion) < 6:
            next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert run.stats.finish_reason == "interrupted"
    monkeypatch.undo()
    entries = list(run.outcome.entries())
    prefix.keep(entries)
    assert entries[-1].tokens == (*PROMPT, *run.stats.completion)
    prompt = [*PROMPT, *run.stats.completion, 60, 61]
    again = warm.outcome(warm.prepared(family, lane, prompt, prefix))
    assert again == warm.outcome(warm.prepared(family, lane, prompt))
    assert again.cached == entries[-1].length


@pytest.mark.parametrize(
    ("family", "method", "before"),
    [
        ("llama", "extend", []),
        ("llama", "propose", []),
        ("llama", "state", []),
        ("qwen3_5", "extend", [SYSTEM]),  # told of the second part of the prompt
        ("qwen3_5", "propose", [SYSTEM, TURN]),
        ("qwen3_5", "state", []),  # asked for at the first boundary already
    ],
)
def test_a_drafter_interrupted_at_work_is_not_kept(family, method, before):
    """Half of its bookkeeping may be done: only what was kept before is sound."""
    run = warm.prepared(family, "model", PROMPT, warm.Kept())
    real, calls = getattr(run.drafting.drafter, method), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == (1 if method == "state" else 2):
            raise KeyboardInterrupt
        return real(*arguments)

    setattr(run.drafting.drafter, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        warm.outcome(run)
    assert [entry.length for entry in run.outcome.entries()] == before


def test_a_run_that_failed_leaves_nothing(monkeypatch):
    run = warm.prepared("qwen3_5", "model", PROMPT, warm.Kept())

    def fail(*arguments):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(run.drafting.drafter, "propose", fail)
    with pytest.raises(RuntimeError):
        warm.outcome(run)
    assert list(run.outcome.entries()) == []


# What is kept


@pytest.mark.parametrize(
    ("family", "lane", "lengths"),
    [
        ("llama", "none", []),  # the end's state serves all shorter ones
        ("llama", "sliding dflash", [SYSTEM, TURN]),
        ("gemma3", "none", [SYSTEM, TURN]),
        ("qwen3_5", "model", [SYSTEM, TURN]),
    ],
)
def test_prompts_boundaries_are_kept_where_the_end_cannot_be_cut(family, lane, lengths):
    run = warm.prepared(family, lane, PROMPT, warm.Kept())
    found = warm.outcome(run)
    assert [entry.length for entry in run.outcome.entries()] == [
        *lengths,
        len(PROMPT) + len(found.tokens) - 1,
    ]


def test_the_prompts_end_is_kept_where_no_boundary_is_near():
    run = warm.prepared("qwen3_5", "none", [*PROMPT, *PROMPT], warm.Kept())
    warm.outcome(run)
    assert [entry.length for entry in run.outcome.entries()][:3] == [
        SYSTEM,
        TURN,
        2 * len(PROMPT) - 1,
    ]


def test_a_boundary_that_was_restored_is_not_kept_again():
    prefix = warm.Kept()
    warm.told(warm.prepared("qwen3_5", "none", PROMPT, prefix), prefix)
    run = warm.prepared("qwen3_5", "none", PROMPT, prefix)
    warm.outcome(run)
    assert [entry.length for entry in run.outcome.entries()] == [len(PROMPT) + warm.TOKENS - 1]


def test_without_a_prefix_cache_prefill_stops_nowhere():
    run = warm.prepared("qwen3_5", "none", PROMPT)
    warm.outcome(run)
    assert len(list(run.outcome.entries())) == 1


@pytest.mark.parametrize("family", ["qwen3_5", "gemma3"])
def test_of_a_boundary_only_what_cannot_be_cut_later_is_held_while_the_run_goes_on(family):
    """Keys and values of full attention are most of a long context, and are there at the end."""
    run = warm.prepared(family, "none", PROMPT, warm.Kept())
    warm.outcome(run)
    whole = [entry.target for entry in run.outcome.entries()][:-1]
    held = [one.target for one in run.prefix._checkpoints]
    assert len(held) == len(whole) == 2
    attention = [cache for cache in run.cache._layer_caches if cache.trims(10**6)]
    assert attention
    for layers, arrays in zip(held, whole, strict=True):
        kept = [array for layer in layers for array in layer or ()]
        cut = sum(cache.width for cache in attention)
        assert len(kept) == len(arrays) - cut
        assert _nbytes(kept) < _nbytes(arrays)


def _nbytes(arrays):
    return sum(array.nbytes for array in arrays)
