"""Products of a few rows: the same numbers, on our instance only."""

import mlx.core as mx
import pytest
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedLinear, quantize

from fixtures import zoo
from llm_specdec.engine.hardware import blas, skinny_matmul
from llm_specdec.engine.hardware.skinny_matmul import SkinnyLinear, ThinEmbedding


@pytest.fixture(autouse=True)
def mkl(monkeypatch):
    monkeypatch.setattr(blas, "preload", lambda: blas.Blas("mkl", "libmkl_rt.so"))


@pytest.mark.parametrize("rows", range(1, 9))
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_gives_the_same(rows, bias):
    layer = Linear(24, 40, bias=bias)
    x = mx.random.normal((1, rows, 24))
    expected = layer(x)
    skinny_matmul.rearrange(layer)
    assert type(layer) is SkinnyLinear
    assert layer(x).shape == (1, rows, 40)
    assert mx.allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize("rows", range(1, 9))
def test_an_output_matrix_shared_with_the_embedding_gives_the_same(rows):
    layer = Embedding(50, 24)
    x = mx.random.normal((rows, 24))
    expected = layer.as_linear(x)
    skinny_matmul.rearrange(layer)
    assert type(layer) is ThinEmbedding
    assert mx.allclose(layer.as_linear(x), expected, atol=1e-5)
    assert mx.array_equal(layer(mx.array([3])), layer.weight[3:4])


def test_one_loaded_model_changes_and_nothing_else():
    ours, theirs = zoo.build("llama")[0], zoo.build("llama")[0]
    skinny_matmul.rearrange(ours)
    assert any(isinstance(module, SkinnyLinear) for _, module in ours.named_modules())
    assert not any(isinstance(module, SkinnyLinear) for _, module in theirs.named_modules())


def test_quantised_and_16_bit_matrices_stay_as_they_are():
    model, _ = zoo.build("llama")
    quantize(model, group_size=32, bits=4)
    skinny_matmul.rearrange(model)
    assert any(type(module) is QuantizedLinear for _, module in model.named_modules())
    half = Linear(24, 40)
    half.set_dtype(mx.bfloat16)
    skinny_matmul.rearrange(half)
    assert type(half) is Linear


def test_with_another_blas_everything_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(blas, "preload", lambda: blas.Blas("openblas", "libopenblas.so"))
    layer = Linear(24, 40)
    skinny_matmul.rearrange(layer)
    assert type(layer) is Linear
