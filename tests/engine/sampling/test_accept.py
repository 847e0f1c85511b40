"""Sampled output has the target's distribution, and a seed means the same text."""

from typing import Any, Literal, cast

import mlx.core as mx
import numpy as np
import pytest
from scipy.stats import chi2

from fixtures import (
    chisquare,
    dflash_checkpoints,
    dspark_checkpoints,
    eagle3_checkpoints,
    heads,
    parity,
    reference,
    zoo,
)
from llm_specdec.drafters.common.language_model import load
from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.drafters.mtp.loading import load_head
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed, Pick
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target


@pytest.mark.parametrize("script", chisquare.SCRIPTS, ids=lambda s: s.name)
def test_every_position_has_the_targets_distribution(script):
    result = chisquare.run(script)
    assert result.accepted > 0.1 * result.rounds
    assert not result.caught, chisquare.table([result])


@pytest.mark.parametrize("script", chisquare.CONTROLS, ids=lambda s: s.name)
def test_a_wrong_rule_is_caught(script):
    assert chisquare.run(script).caught


class Scripted:
    """A target of VOCAB tokens whose logits follow from the last token alone."""

    def __init__(self):
        self.table = mx.array(chisquare.TARGET.astype(np.float32))
        self.layers: list[Any] = []

    def __call__(self, tokens, cache=None):
        return self.table[tokens]

    def make_cache(self):
        return []


class Drafter:
    """Draws from its own table through the run's transforms."""

    kind = source = "scripted"
    taps = ()
    max_draft = None

    def start(self, token):
        self.pending = token

    def extend(self, next_tokens, hidden):
        self.pending = next_tokens[-1]

    def ready(self):
        return True

    def propose(self, k, draw):
        drafted: list[mx.array] = []
        for _ in range(k):
            last = drafted[-1] if drafted else mx.array(self.pending)
            drafted.append(draw.one(chisquare._rows(last), drafted))
        return draw.proposal(mx.stack(drafted))

    def state(self):
        return []


class Cycle:
    """Draft lengths in turn, so that plain steps and drafts of each length alternate."""

    adapts = False
    state: Literal["drafting", "parked"] = "drafting"
    reason = None

    def __init__(self, lengths=(3, 0, 1, 2, 0)):
        self.lengths, self.round = lengths, 0
        self.longest = max(lengths)

    def pick(self, sources, context):
        return Pick(sources[0], self.lengths[self.round // 2 % len(self.lengths)])

    def observe(self, source, drafted, accepted, pick=None):
        self.round += 1


def check_places(logits, tokens, prompt, sampling, allowed=None):
    """Tokens and pairs of neighbours lie where draws from the exact distributions lie."""
    u = reference.places(logits, tokens, prompt, sampling, allowed)
    assert p_value(u[:, None], 40) > chisquare.FALSE_ALARM
    assert p_value(np.column_stack([u[:-1:2], u[1::2]]), 6) > chisquare.FALSE_ALARM


def p_value(values, bins):
    counts = np.histogramdd(values, bins=bins, range=[(0, 1)] * values.shape[1])[0]
    expected = len(values) / counts.size
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1)


@pytest.mark.parametrize(
    "n", [1500, pytest.param(30_000, marks=pytest.mark.slow, id="30000-tokens")]
)
def test_a_whole_run_draws_from_the_targets_distribution(n):
    """The engine as it is: keys by position, drafts and plain steps in turn, penalties whose
    window moves. Tokens and pairs of neighbours."""
    sampling = Sampling(0.9, 0.95, 9, 0.02, 1.2, 0.4, 0.3, "mlx", {4: 1.0})
    target = Target(cast(Any, Scripted()), {})
    run = Run(
        target,
        RollbackCache(target.model),
        cast(Any, Drafter()),
        Cycle(),
        Request(chisquare.PROMPT, n, sampling=sampling),
        PhaseTimer(),
    )
    for _ in run.tokens():
        pass
    assert 0.3 * run.stats.drafted < run.stats.accepted < run.stats.drafted
    tokens = [*chisquare.PROMPT, *run.stats.completion]
    check_places(chisquare.TARGET[tokens], tokens, len(chisquare.PROMPT), sampling)


@pytest.mark.parametrize("lengths", [(0,), (3, 0, 1, 2, 0)], ids=["plain", "drafting"])
def test_a_whole_run_under_a_constraint_draws_from_what_is_allowed(lengths):
    """Masks by the loop itself: the first token, drafts of all lengths, plain steps between."""
    sampling = Sampling(0.9, 0.95, 9, 0.02, 1.2, 0.4, 0.3, "mlx", {4: 1.0})
    target = Target(cast(Any, Scripted()), {})
    request = Request(
        chisquare.PROMPT,
        1500,
        sampling=sampling,
        constraints=[chisquare.Follows(chisquare.PROMPT[-1])],
    )
    drafter, cache = cast(Any, Drafter()), RollbackCache(target.model)
    run = Run(target, cache, drafter, Cycle(lengths), request, PhaseTimer())
    for _ in run.tokens():
        pass
    tokens = [*chisquare.PROMPT, *run.stats.completion]
    allowed = chisquare.ALLOWED[tokens]
    check_places(chisquare.TARGET[tokens], tokens, len(chisquare.PROMPT), sampling, allowed)
    if any(lengths):
        assert 0 < run.stats.accepted < run.stats.drafted


def dflash(version, rows=0):
    """Makes a drafter that reads the target's first layer and its last."""

    def drafter_for(target):
        ids = [0, len(target.model.layers) - 1]
        return dflash_checkpoints.drafter_for(target, version, rows, target_layer_ids=ids)

    return drafter_for


def dspark(kind, rows=0):
    def drafter_for(target):
        ids = [0, len(target.model.layers) - 1]
        return dspark_checkpoints.drafter_for(
            target, rows, target_layer_ids=ids, markov_head_type=kind
        )

    return drafter_for


DRAFTERS = {
    "dspark": dspark("vanilla"),
    "dspark rnn, small head": dspark("rnn", rows=40),
    "dflash": dflash(1),
    "dflash 2": dflash(2),
    "dflash 2, small head": dflash(2, rows=40),
    "eagle3": lambda target: eagle3_checkpoints.drafter_for(target),
    "model": lambda target: ModelDrafter(parity.near_copy("qwen3_5"), zoo.VOCAB),
}


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["card", "mlx"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_real_drafters_leave_the_distribution_alone(name, scope):
    """A recurrent target, hot enough that unrelated drafters are accepted now and then."""
    sampling = Sampling(3.0, 0.9, 40, 0.02, 1.2, 0.3, 0.2, scope)
    target = parity.target("qwen3_5")
    drafter = DRAFTERS[name](target)
    check_drafter(target, drafter, sampling)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "qwen3_5", "deepseek_v3", "nemotron_h"])
def test_prediction_heads_leave_the_distribution_alone(name, tmp_path):
    heads.write(heads.CASES[name], tmp_path / "target")
    target = load(tmp_path / "target")
    head = load_head(tmp_path / "target", target)
    check_drafter(target, head, Sampling(3.0, 0.9, 40, 0.02, 1.2, 0.3, 0.2, "mlx"))


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [False, True])
def test_assistants_leave_the_distribution_alone(clusters):
    drafter = parity.assistant(clusters)
    sampling = Sampling(3.0, 0.9, 40, 0.02, 1.2, 0.3, 0.2, "mlx")
    check_drafter(parity.target("gemma4"), drafter, sampling)


def check_drafter(target, drafter, sampling, n=1500):
    prompt = parity.PROMPTS["long"]
    cache = RollbackCache(target.model, max_draft=3)
    request = Request(prompt, n, sampling=sampling, seed=5)
    run = Run(target, cache, drafter, Fixed(3), request, PhaseTimer())
    tokens = [*prompt, *(token for part in run.tokens() for token in part)]
    assert 0 < run.stats.accepted < run.stats.drafted
    logits = np.array(target.model(mx.array([tokens]))[0], dtype=np.float64)
    check_places(logits, tokens, len(prompt), sampling)


def text(seed, family="llama", global_seed=0, sampling=None, lane=None):
    model, config = zoo.build(family)
    target = Target(model, config)
    sampling = sampling or Sampling(temperature=0.9, top_p=0.9, repetition_penalty=1.1)
    mx.random.seed(global_seed)
    request = Request([7, 8, 9, 7, 8, 9, 7], 30, sampling=sampling, seed=seed)
    drafter = lane or LookupDrafter()
    run = Run(target, RollbackCache(model), drafter, Fixed(3), request, PhaseTimer())
    return [token for tokens in run.tokens() for token in tokens]


def test_the_same_seed_gives_the_same_text_whatever_the_global_state():
    assert text(7) == text(7, global_seed=99)


def test_seed_zero_is_a_seed():
    assert text(0) == text(0) != text(1)
