"""Passes that start early give what passes give, on our instance only."""

from types import SimpleNamespace

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.engine.hardware import eager_dispatch
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.taps import Taps, class_of, decoder_layers
from llm_specdec.engine.target import Target


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(eager_dispatch, "LEAST", 0)


def passes(model, args):
    """Logits and hidden states of a prompt and of three tokens after it."""
    target = Target(model, args)
    cache = RollbackCache(model)
    with Taps(model, (0, "final_norm")) as taps:
        found = []
        for tokens in ([5, 6, 7, 8], [9, 10, 11]):
            logits = target.forward(mx.array(tokens), cache)
            found += [logits, *taps.take().values()]
    return found


def on(monkeypatch, kind):
    """A device of this kind, for those who ask which it is."""
    monkeypatch.setattr(mx, "default_device", lambda: SimpleNamespace(type=kind))


@pytest.mark.parametrize("family", [f for f in zoo.FAMILIES if f != "gemma3n"])
def test_the_numbers_stay(family, any_size):
    model, args = zoo.build(family)
    expected = passes(model, args)
    eager_dispatch.launch_layers(model)
    found = passes(model, args)
    assert len(found) == 6
    assert all(mx.array_equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("kind", "launches"), [(mx.DeviceType.cpu, 9), (mx.DeviceType.gpu, 3)], ids=["cpu", "gpu"]
)
def test_every_few_layers_are_asked_for_as_they_are_built(any_size, monkeypatch, kind, launches):
    (ours, args), (theirs, _) = [zoo.build("llama", num_hidden_layers=17) for _ in range(2)]
    expected = passes(ours, args)
    asked: list[mx.array] = []
    launch = mx.async_eval

    def watched(states):
        asked.append(states)
        launch(states)

    monkeypatch.setattr(mx, "async_eval", watched)
    with monkeypatch.context() as patched:
        on(patched, kind)
        eager_dispatch.launch_layers(ours)
    passes(theirs, args)
    assert asked == []
    found = passes(ours, args)
    assert [states.shape for states in asked] == [(1, 4, 64)] * launches + [(1, 3, 64)] * launches
    assert all(mx.array_equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("why", ["small layers", "switched off"])
@pytest.mark.parametrize("kind", [mx.DeviceType.cpu, mx.DeviceType.gpu], ids=["cpu", "gpu"])
def test_where_it_does_not_pay_the_model_is_left_alone(why, kind, monkeypatch):
    model, _ = zoo.build("llama")
    on(monkeypatch, kind)
    if why == "switched off":
        monkeypatch.setattr(eager_dispatch, "LEAST", 0)
        monkeypatch.setenv(eager_dispatch.VARIABLE, "off")
    eager_dispatch.launch_layers(model)
    assert all(type(layer) is class_of(layer) for layer in decoder_layers(model))


def test_the_class_of_a_layer_is_its_own_under_observation(any_size):
    model, _ = zoo.build("llama")
    own = type(model.layers[0])
    eager_dispatch.launch_layers(model)
    assert type(model.layers[0]) is not own
    assert class_of(model.layers[0]) is own
