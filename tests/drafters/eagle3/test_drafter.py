"""What an EAGLE-3 drafter drafts, and what remains of it."""

from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from fixtures import eagle3_checkpoints as checkpoints
from fixtures import parity, zoo
from fixtures.eagle3_checkpoints import TOKENS, config, drafter_for, following, save, weights
from llm_specdec.drafters.common.shortlist import NEVER
from llm_specdec.drafters.eagle3 import calibration
from llm_specdec.drafters.eagle3 import drafter as eagle3
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target
from llm_specdec.errors import CheckpointError, PairingError
from tests.support.dflash import Recorder

RNG = np.random.default_rng(2)
WIDTH = 64
SAID = RNG.integers(0, zoo.VOCAB, 60).tolist()
STATES = {tap: mx.array(RNG.normal(0, 1, (59, WIDTH)).astype(np.float32)) for tap in (0, 1)}


def tell(drafter, start, stop):
    rows = {tap: states[start:stop] for tap, states in STATES.items()}
    drafter.extend(SAID[start + 1 : stop + 1], rows)


def told(drafter, stop, step=5):
    drafter.start(SAID[0])
    for start in range(0, stop, step):
        tell(drafter, start, min(stop, start + step))
    return drafter


def drafts(drafter, k, plain=False):
    seen = Recorder(plain)
    tokens = drafter.propose(k, seen).tokens.tolist()
    return tokens, np.array(seen.rows)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "norms": {"norm_before_residual": True, "norm_before_fc": True, "norm_output": True},
    "norm each": {"fc_norm": True},
    "qwen3, two layers": {"model_type": "qwen3", "num_hidden_layers": 2},
    "window": {"layer_types": ["sliding_attention"], "sliding_window": 8},
}


@pytest.fixture(scope="module", params=VARIANTS)
def drafter(request):
    return drafter_for(parity.target("llama"), **VARIANTS[request.param])


def test_nothing_of_a_rejected_draft_remains(drafter):
    """Whatever was accepted: the slots that it made from its own states are made anew."""
    fresh = told(drafter, 40, 40)
    expected = drafts(fresh, 4)
    for step in (1, 2, 3, 5):
        again = told(drafter, 30)
        for start in range(30, 40, step):
            drafts(again, 4)
            tell(again, start, min(40, start + step))
        tokens, rows = drafts(again, 4)
        assert tokens == expected[0]
        np.testing.assert_allclose(rows, expected[1], atol=2e-4, rtol=1e-4)


def test_a_restored_drafter_proposes_as_one_told_everything(drafter):
    kept = [mx.array(a) for a in told(drafter, 30).state()]
    assert {array.shape[2] for array in kept} == {30}
    tell(drafter, 30, 36)
    expected = drafts(drafter, 4)
    drafter.load_state(kept, SAID[:21])  # cut to twenty positions
    assert not drafter.ready()
    tell(drafter, 20, 36)
    tokens, rows = drafts(drafter, 4)
    assert tokens == expected[0]
    np.testing.assert_allclose(rows, expected[1], atol=2e-4, rtol=1e-4)


def test_drafts_are_tokens_of_its_own_vocabulary(drafter):
    own = set(drafter.tokens.tolist())
    tokens, rows = drafts(told(drafter, 20), 5)
    assert drafts(drafter, 5, plain=True)[0] == tokens
    assert len(own) == 60 and set(tokens) <= own
    assert rows.shape == (5, zoo.VOCAB)
    assert all(set(np.flatnonzero(row > NEVER)) == own for row in rows)


def test_depth_is_a_recurrence_over_its_own_states():
    """The second draft is that of a pass over the first one and the states that gave it."""
    for norm_output in (False, True):
        drafter = drafter_for(parity.target("llama"), norm_output=norm_output)
        tokens, rows = drafts(told(drafter, 20), 2)
        told(drafter, 20)
        drafter._read_rows()
        states = drafter._last
        assert states is not None
        given = drafter.model.norm(states) if norm_output else states
        output = drafter._pass(mx.array(tokens[:1]), given[None])
        logits = drafter._scattered(drafter.logits(drafter.model.norm(output)))
        np.testing.assert_allclose(np.array(logits)[0], rows[1], atol=1e-5)


# In disguise


def disguised(folder, layers=2):
    model, made = zoo.build("llama", vocab_size=TOKENS, num_hidden_layers=layers)
    checkpoints.disguise(model, folder)
    target = Target(model, made)
    return target, eagle3.load(folder, target, layers, "inputs")


def test_a_drafter_in_disguise_is_accepted_where_it_must_be(tmp_path):
    target, drafter = disguised(tmp_path / "drafter")
    cache = RollbackCache(target.model, max_draft=3)
    request = Request([3, following(3)], 60)
    run = Run(target, cache, drafter, Fixed(3), request, PhaseTimer())
    text = [*request.prompt, *(token for part in run.tokens() for token in part)]
    assert text == [text[0], *map(following, text[:-1])]
    known = [checkpoints.rightly(*pair) for pair in pairwise(text)]
    at, expected = len(request.prompt) + 1, []
    while at < len(text):
        ahead = known[at - 2 : at + min(3, len(text) - 1 - at) - 2]
        accepted = (*ahead, False).index(False)
        expected.append((len(ahead), accepted))
        at += accepted + 1
    drafted = sum(length for length, _ in expected)
    assert 0 < run.stats.accepted < run.stats.drafted
    assert (run.stats.drafted, run.stats.accepted) == (
        drafted,
        sum(accepted for _, accepted in expected),
    )


def test_the_reading_that_calibration_prefers_is_the_right_one(tmp_path):
    """The second layer's output is noise: a drafter that reads it in the first one's place is
    wrong, and with the right reading acceptance is what drafting one token gets."""
    target, drafter = disguised(tmp_path / "drafter", layers=3)
    noisy = target.model.model.layers[1].mlp.down_proj
    noisy.weight = mx.random.normal(noisy.weight.shape, key=mx.random.key(1)) * 50
    text = [3]
    while len(text) < 60:
        text.append(following(text[-1]))
    found = calibration.acceptance(drafter, target, text[:5], text[5:])
    right = [checkpoints.rightly(*pair) for pair in pairwise(text[4:-1])]
    assert found["inputs"] == pytest.approx(sum(right) / len(right))
    assert found["outputs"] < found["inputs"] - 0.1


# Loading


@pytest.mark.parametrize("dialect", checkpoints.DIALECTS)
@pytest.mark.parametrize("bits", [None, 4])
def test_every_dialect_drafts_the_targets_own_text(dialect, bits):
    target, prompt = parity.target("gemma3"), parity.PROMPTS["long"]
    drafter = drafter_for(target, dialect, bits=bits)
    assert ("scales" in drafter.model.fc) == bool(bits)
    penalised = Sampling(repetition_penalty=1.3, presence_penalty=0.5)
    plain, drafted = (
        Run(
            target,
            RollbackCache(target.model, max_draft=4),
            one,
            Fixed(4 if one else 0),
            Request(prompt, 24, sampling=penalised),
            PhaseTimer(),
        )
        for one in (None, drafter)
    )
    expected = [token for part in plain.tokens() for token in part]
    assert [token for part in drafted.tokens() for token in part] == expected
    assert drafted.stats.drafted > 24


def checkpoint(folder, **changes):
    raw = config("SpecForge", WIDTH, zoo.VOCAB, 60, [0, 0, 1])
    tensors = weights(raw, WIDTH)
    raw |= changes.pop("config", {})
    return save(folder, raw, {**tensors, **changes.pop("tensors", {})})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"config": {"hidden_act": "gelu"}}, "hidden_act"),
        ({"config": {"parallel_drafting": True}}, "parallel_drafting"),
        ({"config": {"norm_before_fc": True}}, "norm_before_fc"),
        ({"config": {"fc_norm": True}}, "fc_norm"),
        ({"config": {"draft_vocab_size": 61}}, "draft_vocab_size"),
        ({"config": {"num_aux_hidden_states": 5}}, "hidden states"),
        ({"config": {"rope_scaling": {"rope_type": "spiral"}}}, "spiral"),
        ({"tensors": {"midlayer.extra.weight": np.zeros(3, np.float32)}}, "extra"),
        ({"tensors": {"d2t": np.zeros(60, np.int64) + 50}}, "vocabulary"),
        ({"tensors": {"t2d": np.zeros(zoo.VOCAB, bool)}}, "t2d"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(tmp_path, changes, named):
    folder = checkpoint(tmp_path / "drafter", **changes)
    with pytest.raises(CheckpointError, match=named) as error:
        eagle3.load(folder, parity.target("llama"), 2)
    assert "\n" not in str(error.value)


def test_a_target_of_another_width_is_refused_with_both_figures(tmp_path):
    folder = checkpoint(tmp_path / "drafter")
    narrow = Target(*zoo.build("llama", hidden_size=32))
    with pytest.raises(PairingError, match=r"64.*32"):
        eagle3.load(folder, narrow, 2)


@pytest.mark.parametrize(
    ("dialect", "ids", "layers", "taps"),
    [
        ("SafeAILab", None, 32, (1, 15, 28)),  # outputs of 1, L // 2 - 1 and L - 4
        ("speculators", None, 32, (1, 15, 28)),
        ("SafeAILab", [1, 15, 28], 32, (1, 15, 28)),
        ("speculators", [1, 15, 28], 32, (1, 15, 28)),
        ("SpecForge", [1, 15, 28], 32, (1, 15, 28)),
        ("SpecForge", [2, 16, 29], 32, (1, 15, 28)),
        ("SpecForge", [24, 30, 36], 36, (23, 29, 35)),
        ("SpecForge", [0, 4, 9], 12, (0, 4, 9)),
    ],
)
def test_layers_are_counted_as_the_dialect_counts_them(dialect, ids, layers, taps):
    raw = config(dialect, WIDTH, zoo.VOCAB, 60, ids)
    found = checkpoints.described(raw, weights(raw, WIDTH))
    assert eagle3.taps_of(found, found.readings(layers)[0], layers) == taps


def test_the_embedding_is_read_where_the_first_layer_is_entered():
    raw = config("speculators", WIDTH, zoo.VOCAB, 60, [-1, 4, 9])
    found = checkpoints.described(raw, weights(raw, WIDTH))
    assert eagle3.taps_of(found, "inputs", 12) == ("embedding", 4, 9)
