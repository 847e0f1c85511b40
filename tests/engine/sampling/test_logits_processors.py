"""Penalties and truncation equal mlx-lm's own, row by row, and the definitions in float64."""

from unittest.mock import patch

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p, make_logits_processors

from fixtures import reference
from llm_specdec.engine.sampling import logits_processors
from llm_specdec.engine.sampling.logits_processors import History, Sampling

VOCAB = 24
tokens = st.integers(0, VOCAB - 1)
histories = st.lists(tokens, min_size=1, max_size=60)
drafts = st.lists(tokens, max_size=8)
penalties = st.fixed_dictionaries(
    {},
    optional={
        "repetition_penalty": st.sampled_from([0.8, 1.15, 1.5]),
        "presence_penalty": st.sampled_from([-0.5, 0.7]),
        "frequency_penalty": st.sampled_from([-0.2, 0.4]),
        "logit_bias": st.dictionaries(tokens, st.sampled_from([-3.0, 0.5, 2.0]), min_size=1),
    },
)
cuts = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.3, 1.0, 1.7])},
    optional={
        "top_p": st.sampled_from([0.2, 0.7, 0.95]),
        "top_k": st.integers(1, VOCAB + 2),
        "min_p": st.sampled_from([0.02, 0.3]),
    },
)


def logits(m, seed):
    return np.random.default_rng(seed).normal(size=(m, VOCAB)).astype(np.float32) * 2


def penalised(prompt, output, drafted, sampling, rows, first=0):
    history = History(prompt, VOCAB)
    for token in output:
        history.commit([token])
    ids = mx.array(drafted, dtype=mx.int32)
    return np.array(logits_processors.penalise(mx.array(rows), history, ids, sampling, first))


@settings(max_examples=150, deadline=None)
@given(histories, histories, drafts, penalties, st.integers(0, 9))
def test_mlx_scope_equals_mlx_lms_processors_row_by_row(prompt, output, drafted, chosen, seed):
    rows = logits(len(drafted) + 1, seed)
    got = penalised(prompt, output, drafted, Sampling(penalty_scope="mlx", **chosen), rows)
    for i, row in enumerate(rows):
        expected = mx.array(row)[None]
        history = mx.array([*prompt, *output, *drafted[:i]])
        for processor in make_logits_processors(**chosen):
            expected = processor(history, expected)
        np.testing.assert_allclose(got[i], np.array(expected[0]), rtol=1e-5, atol=1e-5)


@settings(max_examples=150, deadline=None)
@given(histories, st.lists(tokens, max_size=30), drafts, penalties, st.data())
def test_any_slice_of_rows_equals_the_definitions(prompt, output, drafted, chosen, data):
    """Both scopes, and drafters asking for one row at a time."""
    scope = data.draw(st.sampled_from(["card", "mlx"]))
    first = data.draw(st.integers(0, len(drafted)))
    sampling = Sampling(penalty_scope=scope, **chosen)
    rows = logits(len(drafted) + 1 - first, 3)
    got = penalised(prompt, output, drafted, sampling, rows, first)
    for i, row in enumerate(rows):
        history = [*output, *drafted[: first + i]]
        expected = reference.penalised(row, prompt, history, sampling)
        np.testing.assert_allclose(got[i], expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=150, deadline=None)
@given(cuts, st.integers(0, 99))
def test_mlx_scope_truncates_like_mlx_lms_sampler(chosen, seed):
    row = mx.array(logits(1, seed))
    sampling = Sampling(penalty_scope="mlx", **chosen)
    kept = row - mx.logsumexp(row, keepdims=True)
    if sampling.top_p < 1:
        kept = apply_top_p(kept, sampling.top_p)
    if sampling.min_p:
        kept = apply_min_p(kept, sampling.min_p)
    if 0 < sampling.top_k < VOCAB:
        kept = apply_top_k(kept, sampling.top_k)
    expected = mx.softmax(kept / sampling.temperature, axis=-1)
    got = logits_processors.distribution(row, sampling)
    np.testing.assert_allclose(np.array(got), np.array(expected), rtol=1e-4, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(cuts, st.integers(0, 99), st.sampled_from(["card", "mlx"]), st.sampled_from([2, 5, 64]))
def test_distributions_equal_the_definitions(chosen, seed, scope, group):
    """Whatever the groups in which the largest columns are looked for."""
    rows = logits(3, seed)
    sampling = Sampling(penalty_scope=scope, **chosen)
    with patch.object(logits_processors, "GROUP", group):
        got = np.array(logits_processors.distribution(mx.array(rows), sampling))
    for i, row in enumerate(rows):
        expected = reference.distribution(row.astype(np.float64), sampling)
        np.testing.assert_allclose(got[i], expected, rtol=1e-4, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 99),
    st.sampled_from([0.0, 0.5, 4.0, 100.0]),
    st.sampled_from([0.02, 0.4, 0.9, 0.999]),
    st.sampled_from(["card", "mlx"]),
    st.sampled_from([1, 3, 8]),
)
def test_top_p_of_a_few_columns_equals_that_of_all(seed, spread, p, scope, few):
    """Also where logits are equal, as in 16 bits, flat, far apart or forbidden."""
    rows = np.round(logits(3, seed) * spread) / 2
    rows[1, ::5] = -np.inf
    sampling = Sampling(temperature=0.8, top_p=p, penalty_scope=scope)
    whole = np.array(logits_processors.distribution(mx.array(rows), sampling))
    with patch.object(logits_processors, "FEW", few):
        got = np.array(logits_processors.distribution(mx.array(rows), sampling))
    np.testing.assert_array_equal(got > 0, whole > 0)
    np.testing.assert_allclose(got, whole, rtol=1e-5)


HARD = 1003  # columns; no group of 8 or 64 divides it
hard_rows = {
    "random": np.random.default_rng(5).normal(size=HARD) * 3,
    "ties": np.random.default_rng(6).integers(-4, 4, size=HARD) / 2,
    "flat": np.zeros(HARD),
    "nearly flat": np.random.default_rng(7).normal(size=HARD) * 0.01,
    "one spike": np.where(np.arange(HARD) == HARD - 1, 40.0, 0.0),
    "three allowed": np.where(np.isin(np.arange(HARD), [0, 700, 1002]), 1.0, -np.inf),
    "half forbidden": np.where(np.arange(HARD) % 2, -np.inf, np.arange(HARD) / 90),
}


def sorted_whole(row, sampling):
    """Top-k, then top-p, over a row that is sorted whole; the k-th tied ones in no order."""
    scores = row.astype(np.float64) / sampling.temperature
    order = np.argsort(-scores, kind="stable")[: sampling.top_k or None]
    masses = np.exp(scores[order] - scores.max())
    if sampling.top_p < 1:
        before = (np.cumsum(masses) - masses) / masses.sum()
        last = scores[order][np.flatnonzero(before < sampling.top_p)[-1]]
        masses = np.where(scores[order] >= last, masses, 0)
    return order, masses / masses.sum()


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("chosen", [{"top_k": 20}, {"top_p": 0.93}, {"top_k": 50, "top_p": 0.93}])
@pytest.mark.parametrize("group", [8, 64])
def test_what_is_looked_for_among_few_columns_equals_a_sort_of_all(dtype, chosen, group):
    """All rows at once, and each alone: top-p may find one row among few, and the next not."""
    sampling = Sampling(temperature=0.8, **chosen)
    rows = mx.array(np.stack(list(hard_rows.values())).astype(np.float32)).astype(dtype)
    wide = np.array(rows.astype(mx.float32))
    with patch.multiple(logits_processors, GROUP=group, FEW=100):
        together = np.array(logits_processors.distribution(rows, sampling))
        alone = [np.array(logits_processors.distribution(r[None], sampling))[0] for r in rows]
    for name, row, *found in zip(hard_rows, wide, together, alone, strict=True):
        order, expected = sorted_whole(row, sampling)
        for got in found:
            if sampling.top_k:  # which of the tied ones are left is not said, what they get is
                got, order = np.sort(got)[::-1], np.arange(len(order))
            np.testing.assert_allclose(got[order], expected, rtol=1e-4, err_msg=name)
            assert np.delete(got, order).sum() == 0, name


def test_a_token_that_is_not_allowed_has_no_chance_where_few_are():
    row = mx.array(hard_rows["three allowed"][None].astype(np.float32))
    with patch.object(logits_processors, "GROUP", 8):
        got = np.array(logits_processors.distribution(row, Sampling(temperature=1, top_k=20)))
    assert np.flatnonzero(got[0]).tolist() == [0, 700, 1002]


def test_a_peaked_row_of_a_large_vocabulary_is_not_sorted_whole(monkeypatch):
    sorted_columns: list[int] = []
    sort = mx.sort

    def watched(x, axis):
        sorted_columns.append(x.shape[1])
        return sort(x, axis)

    monkeypatch.setattr(mx, "sort", watched)
    row = mx.zeros((1, 20_000)).at[0, 7].add(30.0)
    sampling = Sampling(temperature=1.0, top_p=0.95)
    assert logits_processors.distribution(row, sampling)[0, 7].item() == 1.0
    logits_processors.distribution(mx.zeros((1, 20_000)), sampling)
    assert sorted_columns == [logits_processors.FEW, 20_000]


def test_a_transform_leaves_its_inputs_alone():
    rows = mx.array(logits(2, 0))
    history = History([1, 2, 2], VOCAB)
    before = np.array(rows)
    sampling = Sampling(repetition_penalty=1.5, logit_bias={3: 1.0})
    first = np.array(logits_processors.penalise(rows, history, mx.array([5]), sampling))
    again = np.array(logits_processors.penalise(rows, history, mx.array([5]), sampling))
    assert (np.array(rows) == before).all() and (first == again).all()


@pytest.mark.parametrize(
    "chosen",
    [
        {"presence_penalty": 0.05},
        {"frequency_penalty": 0.02},
        {"repetition_penalty": 1.002},
        {"logit_bias": {5: -0.05}},
    ],
)
def test_a_small_penalty_is_not_rounded_away_in_16_bits(chosen):
    """One step of bfloat16 at 20 is 0.125."""
    history = History([5, 1], VOCAB)
    history.commit([5])
    rows = mx.full((1, VOCAB), 20.0).astype(mx.bfloat16)
    none = mx.zeros((0,), dtype=mx.int32)
    got = logits_processors.penalise(rows, history, none, Sampling(**chosen))
    assert 19.9 < float(np.array(got)[0, 5]) < 20.0


def test_where_nothing_is_penalised_rows_keep_their_precision():
    rows = mx.full((1, VOCAB), 20.0).astype(mx.bfloat16)
    none = mx.zeros((0,), dtype=mx.int32)
    got = logits_processors.penalise(rows, History([5], VOCAB), none, Sampling())
    assert got.dtype == mx.bfloat16


@pytest.mark.parametrize("temperature", [5e-324, 1e-38, 1e-7])
def test_a_temperature_too_cold_to_divide_by_is_greedy(temperature):
    assert Sampling(temperature=temperature).greedy


def test_above_it_the_best_logit_has_nearly_all_the_mass():
    coldest = Sampling(temperature=logits_processors.COLDEST)
    rows = mx.array([[-30.0, 29.999, 30.0]])
    assert not coldest.greedy
    assert logits_processors.distribution(rows, coldest).tolist() == [[0.0, 0.0, 1.0]]
