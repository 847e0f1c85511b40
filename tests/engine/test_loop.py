"""However a run ends, text, counts and cache agree, and the cache can be gone on with."""

import mlx.core as mx
import pytest

from fixtures import parity, zoo
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed, Pick
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling import accept
from llm_specdec.engine.taps import observe

FAMILIES = ("llama", "gemma3", "qwen3_5")
LANES = {"none": None, "oracle": 1.0, "adversary": 0.0, "mixed": 0.6}
PROMPT = parity.PROMPTS["long"]


def written(family):
    return parity.plain(family, "plain", "long")


def start(family, lane, **request):
    target = parity.target(family)
    rate = LANES[lane]
    drafter = None if rate is None else zoo.Scripted([*PROMPT, *written(family)], rate, seed=3)
    cache = RollbackCache(target.model, max_draft=4)
    asked = Request(PROMPT, request.pop("max_tokens", 30), **request)
    return Run(target, cache, drafter, Fixed(4 if drafter else 0), asked, PhaseTimer())


def tokens_of(run):
    return [token for tokens in run.tokens() for token in tokens]


def check(run, family, n, reason):
    """The first n tokens of the plain text, counted once, with a cache that goes on exactly."""
    stats, text = run.stats, written(family)
    assert stats.completion == text[:n]
    assert stats.finish_reason == reason
    assert stats.accepted <= stats.drafted
    assert stats.accepted + stats.rounds + (n > 0) >= n
    assert run.cache.length == len(PROMPT) + n - 1
    check_cache(run, [*PROMPT, *text[:n]])


def check_cache(run, tokens):
    """What the cache covers is as if it had been read at once."""
    covered, coming = tokens[: run.cache.length], [*tokens[run.cache.length :], 11, 12, 13]
    cold = RollbackCache(run.target.model)
    if covered:
        run.target.forward(mx.array(covered), cold)
    warm_logits = run.target.forward(mx.array(coming), run.cache)
    cold_logits = run.target.forward(mx.array(coming), cold)
    assert mx.allclose(warm_logits, cold_logits, rtol=1e-3, atol=2e-3)
    run.cache.close()


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [1, 2, 13])
def test_max_tokens_inside_a_draft(family, lane, n):
    run = start(family, lane, max_tokens=n)
    assert tokens_of(run) == written(family)[:n]
    check(run, family, n, "length")


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("family", FAMILIES)
def test_eos_inside_a_draft(family, lane):
    text = written(family)
    place = next(i for i in range(7, 30) if text[i] not in text[:i])
    run = start(family, lane, eos=frozenset({text[place]}))
    assert tokens_of(run) == text[: place + 1]
    check(run, family, place + 1, "stop")


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_stop_that_spans_tokens(family, lane):
    """`ends_at` is asked once for each committed token, in order, and never beyond the end."""
    asked = []

    def ends_at(token):
        asked.append(token)
        return asked[-3:] == written(family)[8:11]

    run = start(family, lane, ends_at=ends_at)
    assert tokens_of(run) == asked == written(family)[:11]
    check(run, family, 11, "stop")


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_reader_that_stops_reading(family, lane):
    run = start(family, lane)
    stream = run.tokens()
    got: list[int] = []
    while len(got) < 9:
        got += next(stream)
    stream.close()
    assert got == run.stats.completion
    check(run, family, len(got), "interrupted")


@pytest.mark.parametrize("lane", ["oracle", "adversary", "mixed"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("passes", [2, 4])
def test_an_interrupt_between_verify_and_commit(family, lane, passes, monkeypatch):
    fetch, calls = accept.Verdict.fetch, []

    def interrupted(verdict):
        calls.append(verdict)
        if len(calls) == passes:
            raise KeyboardInterrupt
        return fetch(verdict)

    run, got = start(family, lane), []
    monkeypatch.setattr(accept.Verdict, "fetch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        for tokens in run.tokens():
            got += tokens
    check(run, family, len(got), "interrupted")


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("passes", [1, 2, 3, 4])
def test_an_interrupt_inside_the_target(family, lane, passes):
    """Early layers have run, late ones have not: while reading the prompt, in a verify pass, and
    with the plain lane two passes ahead of the committed text."""
    run, got, calls = start(family, lane), [], []

    def interrupt(*call):
        calls.append(call)
        if len(calls) == passes:
            raise KeyboardInterrupt

    remove = observe(run.target.model.layers[0], interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            for tokens in run.tokens():
                got += tokens
    finally:
        remove()
    if got:
        check(run, family, len(got), "interrupted")
    else:
        check_cache(run, PROMPT)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rounds", [1, 6])
def test_an_interrupt_while_the_plain_lane_waits_for_a_token(family, rounds):
    """Two passes are under way then, and neither is committed."""
    run, got, calls = start(family, "none"), [], []
    phase = run.timer.begin_round

    def begin(length):
        calls.append(length)
        return phase(length)

    def commit(tokens):
        if len(calls) == rounds:
            raise KeyboardInterrupt
        return kept(tokens)

    kept, run.timer.begin_round, run.text.commit = run.text.commit, begin, commit
    with pytest.raises(KeyboardInterrupt):
        for tokens in run.tokens():
            got += tokens
    assert run.stats.completion == got
    check(run, family, len(got), "interrupted")


def test_every_pass_counts_as_prefill_or_verify(monkeypatch):
    """The first of some plain steps, too, which is launched before their first round."""
    now = 0.0
    run = start("llama", "mixed")
    run.timer = PhaseTimer(lambda: now)
    run.drafting.policy.pick = lambda sources, context: Pick(sources[0], 2 * (context // 3 % 2))
    forward = run.target.forward

    def slow(*args):
        nonlocal now
        now += 1.0
        return forward(*args)

    monkeypatch.setattr(run.target, "forward", slow)
    tokens_of(run)
    assert min(run.stats.lengths[0], run.stats.lengths[2]) > 3
    phases = run.timer.phases()
    assert phases["prefill"] + phases["verify"] == run.timer.wall
    assert phases["other"] == 0


def test_rollback_is_replay_and_bookkeeping_is_commit(monkeypatch):
    """In rounds with a draft and without one."""
    now = 0.0
    run = start("qwen3_5", "mixed")
    run.timer = PhaseTimer(lambda: now)
    run.drafting.policy.pick = lambda sources, context: Pick(sources[0], 2 * (context // 3 % 2))

    def slow(seconds, call):
        def slowed(*arguments):
            nonlocal now
            now += seconds
            return call(*arguments)

        return slowed

    monkeypatch.setattr(run.cache, "rollback", slow(1.0, run.cache.rollback))
    monkeypatch.setattr(run.text, "commit", slow(10.0, run.text.commit))
    tokens_of(run)
    drafts, plain = run.stats.rounds - run.stats.lengths[0], run.stats.lengths[0]
    phases = run.timer.phases()
    assert min(drafts, plain) > 3
    assert phases["replay"] == pytest.approx(drafts)
    assert phases["commit"] == pytest.approx(10 * (drafts + plain))
    assert phases["prefill"] == 10.0  # the first token's
    assert phases["verify"] == 0.0
