"""Drafting over part of the vocabulary: narrower while the text allows it, exact always."""

import mlx.core as mx
import pytest
from mlx.nn.layers.quantized import quantize

from fixtures import zoo
from llm_specdec.drafters.common.shortlist import Shortlist
from llm_specdec.engine.target import Target

VOCAB = 48_000


def test_common_tokens_are_drafted_over_a_part_of_the_rows():
    shortlist = Shortlist(VOCAB)
    shortlist.start([5, 900, 30_000, 17])
    assert shortlist.rows == 8_000


def test_a_text_of_high_tokens_is_drafted_over_all_rows_and_back():
    shortlist = Shortlist(VOCAB)
    shortlist.start([40_000] * 30)
    assert shortlist.rows == VOCAB
    shortlist.watch([7] * 60)
    assert shortlist.rows == 8_000
    shortlist.watch([40_000] * 30)
    shortlist.start([7])
    assert shortlist.rows == 8_000


def test_a_small_vocabulary_is_read_whole():
    assert Shortlist(96).rows == 96


def test_the_state_follows_from_the_tokens_alone():
    """A restored run drafts over the same rows as one that went on."""
    tokens = [7, 40_000, 41_000] * 20
    at_once, step_by_step = Shortlist(VOCAB), Shortlist(VOCAB)
    at_once.start(tokens)
    step_by_step.start(tokens[:1])
    for token in tokens[1:]:
        step_by_step.watch([token])
    assert at_once._share == step_by_step._share


def test_left_out_tokens_have_no_chance():
    shortlist = Shortlist(VOCAB)
    row = shortlist.whole(mx.ones((1, 8_000)))
    assert row.shape == (1, VOCAB)
    assert mx.softmax(row, axis=-1)[0, 8_000:].max().item() == 0


@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("tied", [False, True])
def test_the_first_rows_of_the_output_matrix_give_the_first_logits(tied, bits):
    model, config = zoo.build("llama", tie_word_embeddings=tied)
    if bits:
        quantize(model, group_size=32, bits=bits)
    target = Target(model, config)
    hidden = mx.random.normal((2, 64))
    whole = target.head(hidden)
    for rows in (10, 40, 96):
        assert mx.allclose(target.head(hidden, rows), whole[:, :rows], atol=1e-5)
    assert mx.array_equal(target.head(hidden), whole)


def test_where_every_other_token_is_forbidden_a_left_out_one_can_be_drawn():
    shortlist = Shortlist(VOCAB)
    row = shortlist.whole(mx.full((1, 8_000), -mx.inf))
    assert mx.softmax(row, axis=-1)[0, 8_000:].sum().item() == pytest.approx(1, rel=1e-3)
