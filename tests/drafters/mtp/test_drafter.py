"""The head drafts from true states, whatever was accepted before, and nothing is left of a
rejected draft."""

import random
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache
from scipy.stats import chisquare

from fixtures import heads
from llm_specdec.drafters.common import shortlist
from llm_specdec.drafters.common.language_model import load
from llm_specdec.drafters.mtp.drafter import MTPDrafter
from llm_specdec.drafters.mtp.loading import load_head
from llm_specdec.engine.drafter import Proposal
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling import logits_processors
from llm_specdec.engine.sampling.logits_processors import Sampling

PUBLISHED = [
    "llama", "qwen3_5", "qwen3_next", "deepseek_v3", "glm4_moe", "mimo", "glm4_moe_lite",
    "ernie4_5_moe", "nemotron_h",
]  # fmt: skip
WIDTH = 64
PENALTIES = Sampling(repetition_penalty=1.15, presence_penalty=0.5)


class Noting:
    """Draws the argmax and notes the logits."""

    plain = True

    def __init__(self):
        self.logits = []

    def one(self, logits, drafted):
        self.logits.append(logits)
        return mx.argmax(logits).astype(mx.int32)

    def block(self, logits):
        raise AssertionError("a head drafts one token at a time")

    def proposal(self, tokens):
        return Proposal(tokens)

    def keys_and_values(self, layer, rows=None):
        raise AssertionError("a head has a cache of its own")


def drafted(drafter, k):
    noting = Noting()
    drafter.propose(k, noting)
    return mx.stack(noting.logits)


def from_scratch(drafter, tokens, hidden, k):
    """The same draft without any state: all true rows in one pass, then fed back."""
    head, target, cache, noting = drafter.head, drafter.target, KVCache(), Noting()
    output = head(target.embed(mx.array(tokens[1:]))[None], hidden[None], cache)[:, -1:]
    said: list[mx.array] = []
    for _ in range(k):
        normed = head.norm(output)
        said.append(noting.one(target.head(normed[0], target.vocab_size)[0], said))
        states = normed if drafter.taps == ("final_norm",) else output
        output = head(target.embed(said[-1][None])[None], states, cache)
    return mx.stack(noting.logits)


@pytest.fixture(params=PUBLISHED)
def drafter(request, tmp_path):
    heads.write(heads.CASES[request.param], tmp_path / "target")
    return load_head(tmp_path / "target", load(tmp_path / "target"))


@pytest.mark.parametrize("tap", ["final_norm", 1])
def test_a_draft_depends_on_committed_rows_alone(drafter, tap):
    """Chunks, drafts of any depth, rejections and rounds without a draft leave no trace."""
    drafter = MTPDrafter(drafter.head, drafter.target, tap)
    random_ = random.Random(5)
    mx.random.seed(5)
    tokens = [random_.randrange(96) for _ in range(140)]
    hidden = mx.random.normal((len(tokens), WIDTH))
    drafter.start(tokens[0])
    known = 1
    while known < len(tokens):
        more = min(random_.choice([1, 1, 2, 3, 70]), len(tokens) - known)
        rows = hidden[known - 1 : known - 1 + more]
        drafter.extend(tokens[known : known + more], {tap: rows})
        known += more
        if depth := random_.choice([0, 0, 1, 2, 3]):
            expected = from_scratch(drafter, tokens[:known], hidden[: known - 1], depth)
            assert mx.allclose(drafted(drafter, depth), expected, atol=1e-3)


@pytest.mark.parametrize("drafter", ["llama", "deepseek_v3"], indirect=True)
def test_a_restored_drafter_goes_on_as_if_it_had_been_told(drafter):
    mx.random.seed(6)
    tokens = list(range(2, 32))
    hidden = mx.random.normal((len(tokens), WIDTH))

    def tell(known, more):
        drafter.extend(
            tokens[known : known + more], {"final_norm": hidden[known - 1 : known + more - 1]}
        )

    drafter.start(tokens[0])
    tell(1, 19)
    drafter.propose(3, Noting())
    kept = drafter.state()
    assert {array.shape[2] for array in kept} == {19}
    tell(20, 4)
    expected = drafted(drafter, 2)
    for known in (20, 11):  # all of it, and a prefix that another prompt shares
        drafter.load_state(kept, tokens[:known])
        tell(known, 24 - known)
        assert mx.allclose(drafted(drafter, 2), expected, atol=1e-4)


def test_nothing_to_say_before_the_first_row(drafter):
    drafter.start(5)
    assert not drafter.ready() and drafter.state() == []
    drafter.load_state([], [5])
    assert not drafter.ready()


@pytest.mark.parametrize("drafter", ["llama"], indirect=True)
def test_one_pass_of_the_head_a_draft_token(drafter, monkeypatch):
    rows, logits = [], []

    class Target:
        vocab_size = 96

        def embed(self, tokens):
            rows.append(tokens.size)
            return drafter.target.embed(tokens)

        def head(self, hidden, rows=None):
            logits.append(hidden.shape[0])
            return drafter.target.head(hidden, rows)

    counted = MTPDrafter(drafter.head, Target(), "final_norm")
    counted.start(1)
    counted.extend([2] * 100, {"final_norm": mx.zeros((100, WIDTH))})
    assert (rows, logits) == ([100], [])  # prefill never touches the output matrix
    counted.propose(2, Noting())
    counted.extend([3, 4], {"final_norm": mx.zeros((2, WIDTH))})
    counted.propose(3, Noting())
    assert rows == [100, 1, 2, 1, 1]
    assert logits == [1] * 5


# Through the loop


def decode(target, drafter, depth, tokens=40, sampling=None, prompt=(3, 4, 5, 6), seed=0):
    cache = RollbackCache(target.model, max_draft=max(depth, 1))
    request = Request(list(prompt), tokens, sampling=sampling or Sampling(), seed=seed)
    run = Run(target, cache, drafter, Fixed(depth), request, PhaseTimer())
    return [token for part in run.tokens() for token in part], run.stats


def accepted_by_hand(text, depth):
    """Rounds of a disguised head over a known text of two prompt tokens and what follows."""
    accepted, known = [], 3
    while known < len(text):
        asked = min(depth, len(text) - known - 1)
        right = 0
        while right < asked and text[known - 2 + right] not in heads.LEADS_ASTRAY:
            right += 1
        accepted.append(right)
        known += right + 1
    return accepted


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_predictable_head_is_accepted_where_it_is_right(name, depth, tmp_path):
    case = heads.CASES[name]
    case = replace(case, changes={**case.changes, "vocab_size": heads.TOKENS})
    heads.write(case, tmp_path / "target", heads.disguise)
    target = load(tmp_path / "target")
    prompt = [9, heads.following(9)]
    text, stats = decode(target, load_head(tmp_path / "target", target), depth, prompt=prompt)
    said = [prompt[-1]]
    for _ in range(40):
        said.append(heads.following(said[-1]))
    assert text == said[1:]
    rounds = accepted_by_hand([*prompt, *text], depth)
    assert stats.accepted == sum(rounds) and 0 < stats.accepted < stats.drafted
    assert stats.positions == {
        i: sum(right > i for right in rounds) for i in range(depth) if max(rounds) > i
    }


@pytest.mark.parametrize("name", [*PUBLISHED, "qwen3_5_moe fused", "llama sidecar 4-bit"])
def test_greedy_text_equals_the_target_alone(name, tmp_path):
    heads.write(heads.CASES[name], tmp_path / "target")
    target = load(tmp_path / "target")
    drafter = load_head(tmp_path / "target", target)
    for depth, sampling in enumerate((Sampling(), PENALTIES), start=2):
        alone, _ = decode(target, None, 0, tokens=24, sampling=sampling)
        text, stats = decode(target, drafter, depth, tokens=24, sampling=sampling)
        assert text == alone
        assert stats.drafted > 0


@pytest.fixture
def narrow(monkeypatch):
    """Let tiny vocabularies too be drafted over their first sixth."""
    monkeypatch.setattr(shortlist, "SMALL", 0)


@pytest.mark.parametrize("drafter", ["llama", "qwen3_5"], indirect=True)
def test_greedy_text_equals_the_target_alone_over_part_of_the_vocabulary(narrow, drafter):
    drafter = MTPDrafter(drafter.head, drafter.target, "final_norm")
    for sampling in (Sampling(), Sampling(repetition_penalty=1.15, logit_bias={5: 2.0, 90: 1.0})):
        alone, _ = decode(drafter.target, None, 0, sampling=sampling)
        text, stats = decode(drafter.target, drafter, 2, sampling=sampling)
        assert text == alone
        assert stats.drafted > 0


@pytest.mark.slow
@pytest.mark.parametrize("drafter", ["llama", "qwen3_5"], indirect=True)
def test_sampled_text_has_the_targets_distribution(narrow, drafter):
    """The second token over all first ones, drafted by a head that sees a sixth of the tokens."""
    target, runs = drafter.target, 1500
    drafter = MTPDrafter(drafter.head, target, "final_norm")
    sampling = Sampling(temperature=2.0, top_k=40)
    prompt = [3, 4, 5, 6]
    counts, accepted = np.zeros(96), 0
    for seed in range(runs):
        text, stats = decode(target, drafter, 1, tokens=3, sampling=sampling, seed=seed)
        counts[text[1]] += 1
        accepted += stats.accepted
    first = distribution(target.model(mx.array([prompt])), sampling)[0]
    each = mx.array([[*prompt, token] for token in range(96)])
    exact = np.array(first @ distribution(target.model(each), sampling), dtype=np.float64)
    assert 0 < accepted < runs
    assert chi_square(counts, exact * runs) > 1e-4
    assert chi_square(counts, np.roll(exact, 1) * runs) < 1e-9


def distribution(logits, sampling):
    return logits_processors.distribution(logits[:, -1], sampling)


def chi_square(counts, expected):
    """p value, rare tokens taken together."""
    rare = expected < 6
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1:
        counts, expected = counts[:-1], expected[:-1]
    return chisquare(counts, expected * counts.sum() / expected.sum()).pvalue
