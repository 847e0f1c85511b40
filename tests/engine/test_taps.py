"""Hidden states come from our instance alone, and it can be left as it was found."""

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from fixtures import zoo
from llm_specdec.engine.taps import Taps, decoder_layers, final_norm
from llm_specdec.errors import UnsupportedError


def parameter_names(model):
    return sorted(dict(tree_flatten(model.parameters())))


@pytest.mark.parametrize("family", [f for f in zoo.FAMILIES if f != "gemma3n"])
def test_hidden_states_are_the_rows_of_the_last_forward(family):
    model, _ = zoo.build(family)
    tokens = mx.array([[5, 6, 7, 8]])
    expected = model(tokens)
    with Taps(model, (0, "final_norm")) as taps:
        logits = model(tokens)
        hidden = taps.take()
    assert mx.array_equal(logits, expected)
    assert hidden[0].shape == hidden["final_norm"].shape == (4, 64)
    # The output matrix turns one into the other, up to a softcap or a multiplier.
    head = model.get("lm_head") or model.get("language_model", {}).get("lm_head")
    if head is not None:
        assert mx.allclose(head(hidden["final_norm"]), expected[0], atol=1e-4)


def test_hidden_states_are_given_once_and_of_the_last_forward_only():
    model, _ = zoo.build("llama")
    with Taps(model, (1,)) as taps:
        model(mx.array([[5, 6, 7, 8]]))
        model(mx.array([[5, 6]]))
        assert taps.take()[1].shape == (2, 64)
        assert taps.take() == {}


def test_two_owners_see_the_same_and_come_off_in_any_order():
    model, _ = zoo.build("llama")
    layer = decoder_layers(model)[1]
    plain, names = type(layer), parameter_names(model)
    first, second = Taps(model, (1,)), Taps(model, (0, 1))
    model(mx.array([[5, 6]]))
    assert parameter_names(model) == names
    assert mx.array_equal(first.take()[1], second.take()[1])
    first.remove()
    first.remove()
    model(mx.array([[5, 6, 7]]))
    assert first.take() == {} and second.take()[1].shape == (3, 64)
    second.remove()
    assert type(layer) is plain


def test_another_model_of_the_same_class_is_not_watched():
    watched, other = zoo.build("llama")[0], zoo.build("llama", seed=1)[0]
    with Taps(watched, (0, "final_norm")) as taps:
        other(mx.array([[5, 6]]))
        assert taps.take() == {}
    assert type(final_norm(watched)) is type(final_norm(other))


def test_a_layer_that_is_not_there_is_refused_before_anything_is_tapped():
    model, _ = zoo.build("llama")
    plain = [type(layer) for layer in model.layers]
    with pytest.raises(UnsupportedError, match="reads layer 2, but this target has layers 0 to 1"):
        Taps(model, (0, 2))
    assert [type(layer) for layer in model.layers] == plain


def test_layers_without_plain_rows_are_refused_when_read():
    model, _ = zoo.build("gemma3n")
    with Taps(model, (0,)) as taps:
        model(mx.array([[5, 6]]))
        with pytest.raises(UnsupportedError, match="4-dimensional"):
            taps.take()


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt_oss"])
def test_the_embedding_is_what_goes_into_the_first_layer(family):
    """As a boundary: the same layer run over it gives the first layer's output."""
    model, _ = zoo.build(family)
    tokens = mx.array([[5, 6, 7, 8]])
    with Taps(model, ("embedding", 0)) as taps:
        model(tokens)
        hidden = taps.take()
    again = decoder_layers(model)[0](hidden["embedding"][None], mask="causal")
    again = again[0] if isinstance(again, tuple) else again
    assert mx.allclose(again[0], hidden[0], atol=1e-4)
