"""Proposals against an independent float64 reference, whatever way the context arrived."""

import mlx.core as mx
import numpy as np
import pytest

from fixtures.dflash_checkpoints import Lender, config, save, weights
from llm_specdec.drafters.dflash import drafter as dflash
from llm_specdec.drafters.dflash.model import best
from tests.support import dflash_naive as naive
from tests.support.dflash import LAYOUTS, Recorder, conversation, proposed, tell


@pytest.mark.parametrize("steps", [[40], [1] * 8, [25, 1, 1, 4, 2, 6]])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", [1, 2])
def test_logits_equal_the_float64_reference(tmp_path, version, layout, steps):
    raw = config(version, **LAYOUTS[layout])
    tensors, lender = weights(raw), Lender()
    drafter = dflash.load(save(tmp_path / "d", raw, tensors), lender)
    tokens, taps = conversation()
    drafter.start(tokens[0])
    told = 0
    for step, k in zip(steps, [5, 3, 1, 4] * 9, strict=False):
        tell(drafter, tokens, taps, told, told + step)
        told += step
        seen = Recorder()
        drafts = proposed(drafter, k, seen)
        hidden, logits = naive.propose(raw, tensors, lender, taps[:told], tokens[told], k)
        assert len(drafts) == len(seen.rows) == k
        for i, row in enumerate(seen.rows):
            if version == 1:
                np.testing.assert_allclose(row, logits[i], atol=2e-4)
                continue
            before = drafts[i - 1] if i else tokens[told]
            scores = naive.candidate_scores(raw, tensors, hidden, logits, i, before)
            assert {int(token) for token in np.flatnonzero(row > -1e3)} == set(scores)
            for token, score in scores.items():
                assert row[token] == pytest.approx(score, abs=2e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", [1, 2])
def test_the_short_way_to_the_greedy_walk_ends_at_the_same_tokens(tmp_path, version, layout):
    raw = config(version, **LAYOUTS[layout])
    drafter = dflash.load(save(tmp_path / "d", raw, weights(raw)), Lender())
    tokens, taps = conversation()
    drafter.start(tokens[0])
    tell(drafter, tokens, taps, 0, 30)
    for k in (5, 1, 3):
        slow = proposed(drafter, k, Recorder())
        assert proposed(drafter, k, Recorder(plain=True)) == slow


@pytest.mark.parametrize("vocab", [5, 500, 4096, 5000, 49_152])
@pytest.mark.parametrize("c", [1, 4, 8])
def test_the_best_columns_are_those_of_a_full_sort(vocab, c):
    c = min(c, vocab)
    rows = np.random.default_rng(vocab + c).permuted(np.tile(np.arange(vocab), (3, 1)), axis=1)
    found = np.array(best(mx.array(rows.astype(np.float32)), c))
    np.testing.assert_array_equal(np.sort(found), np.sort(np.argsort(rows)[:, -c:]))
