"""Products of a few rows with a weight matrix, the way in which MKL is fast at them.

A verify pass multiplies a handful of rows with every matrix of the model. For three to five of
them MKL's `x @ W.T` first copies W into another order, `(W @ x.T).T` reads it where it lies.
Measured on two x86 cores in float32, all matrices of SmolLM2-135M, ms a pass: 3 rows 55 → 36,
4 rows 61 → 42, 5 rows 69 → 52; for more and for fewer the usual way is as good or better.
"""

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear

from llm_specdec.engine.hardware import blas
from llm_specdec.engine.taps import modules_of

ROWS = {(3,), (4,), (5,)}  # of the last axis but one


class SkinnyLinear(Linear):
    """As mlx's Linear, x (…, in) → (…, out). Written out: on the CPU the device soon waits for
    the host, and a pass makes some two hundred of these calls."""

    def __call__(self, x: mx.array) -> mx.array:
        weight: mx.array = self["weight"]
        if x.shape[-2:-1] in ROWS:
            product = _product(x, weight)
            return product + self["bias"] if "bias" in self else product
        if "bias" in self:
            return mx.addmm(self["bias"], x, weight.T)
        return x @ weight.T


class ThinEmbedding(Embedding):
    """As mlx's Embedding; only its use as an output matrix differs."""

    def as_linear(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        return _product(x, weight) if x.shape[-2:-1] in ROWS else x @ weight.T


def rearrange(model: Module) -> None:
    """Give the plain matrices of this one loaded model the faster product, where it is one: with
    MKL on the CPU, in float32. Quantised and 16-bit matrices do not go through BLAS."""
    library = blas.preload()
    if library is None or library.name != "mkl" or mx.default_device().type != mx.DeviceType.cpu:
        return
    classes: dict[type, type[Module]] = {Linear: SkinnyLinear, Embedding: ThinEmbedding}
    for module in modules_of(model):
        if type(module) in classes and module["weight"].dtype == mx.float32:
            module.__class__ = classes[type(module)]


def _product(x: mx.array, weight: mx.array) -> mx.array:
    rows = x.reshape(-1, x.shape[-1])
    return (weight @ rows.T).T.reshape(*x.shape[:-1], -1)
