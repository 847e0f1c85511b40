"""Layers of blocks that are made as their target's are: Gemma 4's, and Qwen3.5's.

Source: the public layout of DeepSpec's Gemma 4 checkpoints, and of those in Qwen3.5's own style.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx.nn.layers.activations import gelu_approx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm

from llm_specdec.drafters.dflash.config import DFlashConfig
from llm_specdec.drafters.dflash.model import MLP, BlockAttention, Layer, Sublayer
from llm_specdec.drafters.dspark.config import DSparkConfig


class GemmaAttention(BlockAttention):
    """Values are normed too, and may be the keys before their norm; scores are not scaled."""

    def __init__(self, config: DFlashConfig, layer: int, values_are_keys: bool) -> None:
        super().__init__(config, layer)
        self._scale, self._eps = 1.0, config.eps
        if values_are_keys:
            del self.kv_proj
            self.k_proj = Linear(config.hidden_size, self._kv_heads * self._dim, bias=False)

    def keys_and_values(self, rows: mx.array) -> tuple[mx.array, mx.array]:
        both = self.k_proj(rows) if "k_proj" in self else self.kv_proj(rows)
        projected = both.reshape(rows.shape[0], -1, self._kv_heads, self._dim)
        values = mx.fast.rms_norm(projected[:, -1], None, self._eps)
        return self.k_norm(projected[:, 0]), values


class GemmaLayer(Module):
    """Norms before and after each sublayer, and one factor for the whole layer."""

    def __init__(self, config: DFlashConfig, layer: int, values_are_keys: bool) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.eps
        self.input_layernorm = RMSNorm(hidden, eps=eps)
        self.self_attn = GemmaAttention(config, layer, values_are_keys)
        self.post_attention_layernorm = RMSNorm(hidden, eps=eps)
        self.pre_feedforward_layernorm = RMSNorm(hidden, eps=eps)
        self.mlp = MLP(config, gelu_approx)
        self.post_feedforward_layernorm = RMSNorm(hidden, eps=eps)
        self.layer_scalar = mx.ones((1,))

    def __call__(self, x: mx.array, attend: Sublayer) -> mx.array:
        x = x + self.post_attention_layernorm(attend(self.input_layernorm(x)))
        x = x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
        return x * self.layer_scalar


class GatedAttention(BlockAttention):
    """Each head's result is multiplied by a gate, which is stored behind its queries."""

    def __init__(self, config: DFlashConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.q_proj = Linear(config.hidden_size, 2 * config.heads * self._dim, bias=False)

    def queries(self, x: mx.array) -> tuple[mx.array, mx.array | None]:
        both = self.q_proj(x).reshape(x.shape[0], -1, 2 * self._dim)
        queries, gate = mx.split(both, 2, axis=-1)
        return self.q_norm(queries), mx.sigmoid(gate.reshape(x.shape[0], -1))


class GatedLayer(Layer):
    def __init__(self, config: DFlashConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.self_attn = GatedAttention(config, layer)


def layer_of(config: DSparkConfig) -> Callable[[DFlashConfig, int], Any]:
    """What makes a layer of a checkpoint's body."""
    if config.gemma:
        return lambda block, i: GemmaLayer(block, i, config.values_are_keys)
    return GatedLayer if config.gated else Layer
