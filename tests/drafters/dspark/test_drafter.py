"""Proposals against an independent float64 reference, and where a block is cut."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from benchmarks import dspark_parity
from fixtures import dspark_checkpoints as checkpoints
from fixtures.dflash_checkpoints import HIDDEN, LAYER_IDS, VOCAB, Lender, save
from llm_specdec.drafters.common.shortlist import Shortlist
from llm_specdec.drafters.dspark import drafter as dspark
from llm_specdec.engine.drafter import Proposal, Tap
from tests.support import dspark_naive as naive
from tests.support.dflash import Recorder, conversation, proposed, tell

UNCUT = {"enable_confidence_head": False}


class Told:
    """A drafter that was told a conversation in steps, and what it should propose."""

    def __init__(self, folder, raw, rows=0, bits=None):
        self.raw, self.tensors = raw, checkpoints.weights(raw, rows)
        self.lender = Lender()
        self.drafter = dspark.load(save(folder / "d", raw, self.tensors), self.lender, bits, 32)
        self.tokens, self.taps = conversation()
        self.drafter.start(self.tokens[0])
        self.told = 0

    def tell(self, rows):
        tell(self.drafter, self.tokens, self.taps, self.told, self.told + rows)
        self.told += rows

    def expected(self, k):
        return naive.propose(
            self.raw, self.tensors, self.lender, self.taps[: self.told], self.tokens[self.told], k
        )


@pytest.mark.parametrize("rows", [0, 40])
@pytest.mark.parametrize("anchor", [True, False])
@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
def test_logits_equal_the_float64_reference(tmp_path, kind, anchor, rows):
    raw = checkpoints.config(markov_head_type=kind, sample_from_anchor=anchor, **UNCUT)
    run = Told(tmp_path, raw, rows)
    for step, k in ((20, 5), (1, 3), (1, 1), (7, 4)):
        run.tell(step)
        seen = Recorder()
        drafts = proposed(run.drafter, k, seen)
        logits, tokens, _ = run.expected(k)
        assert drafts == tokens
        for row, expected in zip(seen.rows, logits, strict=True):
            known = np.isfinite(expected)
            assert row.shape == (VOCAB,)
            assert (row[~known] < -1e3).all()
            np.testing.assert_allclose(row[known], expected[known], atol=2e-4)
        assert proposed(run.drafter, k, Recorder(plain=True)) == drafts


@pytest.mark.parametrize("sees_token", [True, False])
def test_a_block_is_cut_where_its_confidence_falls(tmp_path, monkeypatch, sees_token):
    raw = checkpoints.config(confidence_head_with_markov=sees_token)
    run = Told(tmp_path, raw)
    run.tell(20)
    _, tokens, chances = run.expected(6)
    kept = np.cumprod(chances)
    for least in (0.0, *(kept[1:] + 1e-4)):
        monkeypatch.setattr(dspark, "LEAST", least)
        n = max(1, int((np.append(kept, -1) < least).argmax()) if least else 6)
        assert proposed(run.drafter, 6, Recorder(plain=True)) == tokens[:n]
        assert proposed(run.drafter, 6, Recorder()) == tokens[:n]


def test_a_cut_proposal_has_the_distributions_of_what_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(dspark, "LEAST", 2.0)

    class Sampling(Recorder):
        def proposal(self, tokens):
            return Proposal(tokens, mx.array(np.stack(self.rows)))

    run = Told(tmp_path, checkpoints.config())
    run.tell(9)
    draw = Sampling()
    found = run.drafter.propose(4, draw)
    assert found.probs is not None
    assert len(found) == found.probs.shape[0] == 1
    np.testing.assert_array_equal(np.array(found.probs[0]), draw.rows[0])


def test_nothing_of_a_rejected_block_remains(tmp_path):
    run = Told(tmp_path, checkpoints.config(markov_head_type="rnn"))
    run.tell(30)
    before = [np.array(a) for a in run.drafter.state()]
    first = proposed(run.drafter, 5, Recorder())
    for one, two in zip(before, run.drafter.state(), strict=True):
        np.testing.assert_array_equal(one, np.array(two))
    assert proposed(run.drafter, 5, Recorder()) == first


def test_the_block_is_run_as_long_as_it_was_trained(tmp_path):
    """Slots see those behind them: fewer masks would be another block."""
    run = Told(tmp_path, checkpoints.config(**UNCUT))
    run.tell(20)
    longest = proposed(run.drafter, 6, Recorder())
    assert proposed(run.drafter, 2, Recorder()) == longest[:2]


@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
def test_quantising_on_load_keeps_the_confidence_head_whole(tmp_path, kind):
    run = Told(tmp_path, checkpoints.config(markov_head_type=kind, markov_rank=32), bits=4)
    run.tell(9)
    heads: Any = run.drafter.model
    assert heads.markov_head.markov_w2.bits == 4
    assert heads.confidence_head.proj.weight.dtype == mx.float32
    assert proposed(run.drafter, 4, Recorder(plain=True))


def test_a_shortlist_keeps_drafts_among_the_common_tokens(tmp_path, monkeypatch):
    monkeypatch.setattr(Shortlist, "rows", 20)
    raw = checkpoints.config(**UNCUT)
    folder = save(tmp_path / "d", raw, checkpoints.weights(raw))
    drafter = dspark.load(folder, Lender(), shortlist=True)
    tokens, taps = conversation()
    drafter.start(tokens[0])
    tell(drafter, tokens, taps, 0, 30)
    drafts = proposed(drafter, 6, Recorder(plain=True))
    assert max(drafts) < 20
    assert proposed(drafter, 6, Recorder()) == drafts
    assert proposed(dspark.load(folder, Lender()), 6, Recorder()) != drafts


@pytest.mark.parametrize("body", [checkpoints.gemma, checkpoints.gated])
def test_a_body_in_the_targets_style_draws_with_the_targets_embedding(tmp_path, body):
    """And in 4 bits; nothing of a rejected block remains."""
    raw, lender = body(**UNCUT), Lender()
    tensors = checkpoints.weights(raw)
    copies = {"embed_tokens.weight": lender.embedding, "lm_head.weight": lender.matrix}
    tokens, taps = conversation()
    found = []
    for name, own, bits in (("a", {}, None), ("b", copies, None), ("c", {}, 4)):
        drafter = dspark.load(save(tmp_path / name, raw, tensors | own), lender, bits, 32)
        drafter.start(tokens[0])
        tell(drafter, tokens, taps, 0, 20)
        state = [np.array(a) for a in drafter.state()]
        found.append(proposed(drafter, 6, Recorder()))
        for one, two in zip(state, drafter.state(), strict=True):
            np.testing.assert_array_equal(one, np.array(two))
    assert found[0] == found[1]
    assert len(found[2]) == 6


RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())["layouts"]


@pytest.mark.parametrize("layout", RECORDED)
def test_logits_and_drafts_are_those_of_mlx_dspark(tmp_path, layout):
    """Recorded by `python -m benchmarks.dspark_parity --record`."""
    raw, lender = dspark_parity.raw_config(layout), Lender()
    folder = save(tmp_path / "d", raw, dspark_parity.tensors_of(raw, lender))
    drafter = dspark.load(folder, lender)
    taps = mx.array(dspark_parity.taps_of(layout))
    drafter.start(0)
    halves: dict[Tap, mx.array] = {
        tap: taps[:, i * HIDDEN : (i + 1) * HIDDEN] for i, tap in enumerate(LAYER_IDS)
    }
    drafter.extend([*[0] * (len(taps) - 1), dspark_parity.PENDING], halves)
    expected = RECORDED[layout]
    k = len(expected["drafts"])
    logits = drafter._logits(drafter._block(k))
    np.testing.assert_allclose(np.array(logits), expected["logits"], atol=2e-4)
    assert drafter.max_draft == k
    assert proposed(drafter, k, Recorder(plain=True)) == expected["drafts"]
