"""No kind of drafter changes a token, whatever a run asks for: in 16 bits and in 4, at every
number of accepted drafts, warm and cold, after an interrupt, and drawn at random."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from scipy.stats import chi2

from fixtures import every_kind, parity, schema_runs, zoo
from fixtures.chisquare import FALSE_ALARM
from fixtures.every_kind import CASES, DEPTH, VOCAB
from llm_specdec.constraints import masks
from llm_specdec.drafters.table import KINDS
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.errors import UnsupportedError
from tests.support import warm
from tests.support.schemas import PERSON

LENGTH = 32
PROMPT = [*range(20, 45), 11, 12, 13, 20, 21, 22]  # more than a window
ACCEPTED = [2, 0, 3, 1]  # drafts of a round, in turn
PENALTIES = Sampling(repetition_penalty=1.15, presence_penalty=0.5)


def test_every_kind_with_weights_is_here():
    with_weights = {kind.name for kind in KINDS.values() if kind.sources and kind.has_weights}
    assert {case.kind for case in CASES.values()} == with_weights


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    return every_kind.write(request.param, tmp_path_factory.mktemp("kind"))


@pytest.fixture(scope="module")
def loaded(pair):
    return pair.load()


class EveryThird:
    """Only a third of the vocabulary may follow, which third by the sum of all tokens before."""

    def __init__(self):
        self.output = []

    def allowed(self, drafts):
        first = sum([*self.output, *drafts]) % 3
        return masks.only(range(first, VOCAB, 3), VOCAB)

    def commit(self, tokens):
        self.output += tokens


def prepared(target, drafter, prompt=PROMPT, length=LENGTH, kv_bits=None, prefix=None, **asked):
    cache = RollbackCache(target.model, kv_bits=kv_bits, kv_group_size=32, max_draft=DEPTH)
    policy = Fixed(DEPTH if drafter else 0)
    request = Request(prompt, length, **asked)
    return Run(target, cache, drafter, policy, request, PhaseTimer(), prefix_cache=prefix)


def written(run):
    found = [token for part in run.tokens() for token in part]
    assert run.cache.length == len(run.text.tokens) - 1
    run.cache.close()
    return found


def coached(drafter, text):
    return zoo.Coached(drafter, [*PROMPT, *text], ACCEPTED)


ASKED: dict[str, Callable[[], dict[str, Any]]] = {
    "penalties": lambda: {"sampling": PENALTIES},
    "mask": lambda: {"constraints": [EveryThird()]},
    "schema": lambda: {
        "constraints": [schema_runs.constraint(PERSON, LENGTH)],
        "eos": frozenset({schema_runs.EOS}),
    },
    "quantised cache": lambda: {"kv_bits": 8},
}


@pytest.mark.parametrize("name", ASKED)
def test_whatever_is_asked_for_the_text_is_the_targets(loaded, name):
    target, drafter = loaded
    try:
        plain = written(prepared(target, None, **ASKED[name]()))
    except UnsupportedError as error:
        pytest.skip(f"refused, drafted or not: {error}")
    run = prepared(target, coached(drafter, plain), **ASKED[name]())
    assert written(run) == plain
    assert run.stats.accepted


def test_after_every_number_of_accepted_drafts_it_proposes_as_one_told_all_at_once(loaded):
    target, drafter = loaded
    text = written(prepared(target, None))
    drafting = coached(drafter, text)
    run = prepared(target, drafting)
    assert written(run) == text
    known, equal = len(PROMPT) + 1, {}
    for passed in run.stats.passes[:-2]:
        accepted = passed.committed - 1
        known += passed.committed
        if known in drafting.logits and accepted not in equal:
            cold = coached(drafter, text)
            written(prepared(target, cold, [*PROMPT, *text][: known - 1], DEPTH + 2))
            anew, drafted = cold.logits[known][0], drafting.logits[known][0]
            equal[accepted] = mx.allclose(drafted, anew, rtol=1e-3, atol=2e-3).item()
    assert equal == dict.fromkeys(ACCEPTED, True)


@pytest.mark.parametrize("precision", ["bfloat16", "4-bit"])
def test_in_fewer_bits_too(pair, precision):
    target, drafter = pair.load(precision)
    try:
        plain = written(prepared(target, None))
        run = prepared(target, coached(drafter, plain))
        drafted = written(run)
    except RuntimeError as error:
        if "GatherMM" not in str(error):
            raise
        pytest.skip("experts in 16 bits are nothing that MLX computes on a CPU")
    found = parity.difference(target, PROMPT, plain, drafted, run.stats.passes)
    assert found is None or found.exact
    assert run.stats.accepted


def test_a_warm_run_is_a_cold_one(loaded):
    target, drafter = loaded
    text = written(prepared(target, None))

    def run(prompt, right, prefix=None):
        noting = warm.Noting(zoo.Coached(drafter, [*prompt, *right], ACCEPTED))
        return prepared(target, noting, prompt, prefix=prefix)

    prefix, prompt = warm.Kept(), [*PROMPT, *text, 11, 12]
    warm.told(run(PROMPT, text, prefix), prefix)
    then = written(prepared(target, None, prompt))
    again, cold = warm.outcome(run(prompt, then, prefix)), warm.outcome(run(prompt, then))
    assert again == cold and again.cached > len(PROMPT)


@pytest.mark.parametrize("method", ["propose", "extend"])
def test_an_interrupt_leaves_what_was_committed(loaded, method, monkeypatch):
    target, drafter = loaded
    text = written(prepared(target, None))
    real, calls = getattr(drafter, method), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(drafter, method, interrupted)
    run = prepared(target, coached(drafter, text))
    with pytest.raises(KeyboardInterrupt):
        for _ in run.tokens():
            pass
    done = run.stats.completion
    assert 0 < len(done) < LENGTH and done == text[: len(done)]
    assert run.cache.length == len(PROMPT) + len(done) - 1
    run.cache.close()
    monkeypatch.undo()
    assert written(prepared(target, coached(drafter, text))) == text


# Few tokens, so that a drafter that knows nothing is accepted now and then.
HOT = Sampling(2.0, 0.95, 0, 0.02, 1.2, 0.3, 0.2, logit_bias=dict.fromkeys(range(40, VOCAB), -1e4))


class Drawn(warm.Noting):
    """Notes draft tokens and what they are said to be drawn from."""

    def __init__(self, drafter):
        super().__init__(drafter)
        self.drawn = []

    def propose(self, k, draw):
        proposal = self._drafter.propose(k, draw)
        self.drawn.append((np.array(proposal.tokens), np.array(proposal.probs)))
        return proposal


def test_sampled_drafts_are_drawn_from_what_it_says(loaded):
    """With that, the rule that accepts them leaves the target's distribution as it is (see
    tests/engine/sampling/test_accept.py). One that says its neighbour's chances is caught."""
    target, drafter = loaded
    noting = Drawn(drafter)
    run = prepared(target, noting, length=120, sampling=HOT, seed=5)
    written(run)
    tokens, probs = (np.concatenate(part) for part in zip(*noting.drawn, strict=True))
    assert chance(tokens, probs) > FALSE_ALARM > chance(tokens, np.roll(probs, 1, axis=1))


def chance(tokens, probs):
    """How likely it is that these tokens come of these distributions."""
    rng, places = np.random.default_rng(1), []
    for token, q in zip(tokens, probs, strict=True):
        order = np.argsort(-q)
        at = np.flatnonzero(order == token)[0]
        places.append(q[order[:at]].sum() + rng.random() * q[token])
    counts = np.histogram(places, bins=20, range=(0, 1.001))[0]
    return chi2.sf(((counts - counts.mean()) ** 2 / counts.mean()).sum(), 19)
