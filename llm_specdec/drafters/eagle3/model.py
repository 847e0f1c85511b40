"""The mathematics of EAGLE-3, one sequence at a time: activations are (1, rows, width).

Source: SafeAILab's EAGLE-3 (arXiv:2503.01840) and vLLM's `speculators`, whose draft logits these
equal.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx.nn.layers.activations import silu
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models.base import create_attention_mask, scaled_dot_product_attention
from mlx_lm.models.cache import KVCache
from mlx_lm.models.rope_utils import initialize_rope

from llm_specdec.drafters.eagle3.config import Eagle3Config

# Names of tensors, as `weights` has renamed them: what a checkpoint has, its modules have.
Names = frozenset[str]


class Attention(Module):
    def __init__(self, config: Eagle3Config, place: str, width: int, names: Names) -> None:
        super().__init__()
        dim = config.head_dim

        def matrix(name: str, rows: int, columns: int) -> Linear:
            return Linear(columns, rows, bias=f"{place}.{name}.bias" in names)

        self.q_proj = matrix("q_proj", config.heads * dim, width)
        self.k_proj = matrix("k_proj", config.kv_heads * dim, width)
        self.v_proj = matrix("v_proj", config.kv_heads * dim, width)
        self.o_proj = matrix("o_proj", config.hidden_size, config.heads * dim)
        self._normed = f"{place}.q_norm.weight" in names
        if self._normed:
            self.q_norm = RMSNorm(dim, eps=config.eps)
            self.k_norm = RMSNorm(dim, eps=config.eps)
        self._dim = dim

    def __call__(self, x: mx.array, cache: KVCache, window: int | None, rope: Module) -> mx.array:
        rows = x.shape[1]
        mask = create_attention_mask(x, cache, window_size=window)
        queries, keys, values = (
            product.reshape(1, rows, -1, self._dim)
            for product in (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )
        if self._normed:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        queries = rope(queries.swapaxes(1, 2), offset=cache.offset)
        keys = rope(keys.swapaxes(1, 2), offset=cache.offset)
        keys, values = cache.update_and_fetch(keys, values.swapaxes(1, 2))
        attended = scaled_dot_product_attention(
            queries, keys, values, cache, scale=self._dim**-0.5, mask=mask
        )
        found: mx.array = self.o_proj(attended.swapaxes(1, 2).reshape(1, rows, -1))
        return found


class MLP(Module):
    def __init__(self, config: Eagle3Config, place: str, names: Names) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        biased = f"{place}.gate_proj.bias" in names
        self.gate_proj = Linear(hidden, inner, bias=biased)
        self.up_proj = Linear(hidden, inner, bias=biased)
        self.down_proj = Linear(inner, hidden, bias=biased)

    def __call__(self, x: mx.array) -> mx.array:
        found: mx.array = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return found


class Layer(Module):
    """Reads the states; the first layer, and others that have both norms, the embedding too."""

    def __init__(self, config: Eagle3Config, index: int, names: Names) -> None:
        super().__init__()
        place, hidden = f"layers.{index}", config.hidden_size
        held = [n for n in ("input_layernorm", "hidden_norm") if f"{place}.{n}.weight" in names]
        self._norms = held or ["input_layernorm"]
        for name in self._norms:
            self[name] = RMSNorm(hidden, eps=config.eps)
        self.self_attn = Attention(config, f"{place}.self_attn", hidden * len(self._norms), names)
        self.post_attention_layernorm = RMSNorm(hidden, eps=config.eps)
        self.mlp = MLP(config, f"{place}.mlp", names)
        self._window = config.windows[index]
        self._norm_first = config.norm_before_residual and index == 0

    def __call__(
        self, embedded: mx.array, states: mx.array, cache: KVCache, rope: Module
    ) -> mx.array:
        inputs = normed = self[self._norms[-1]](states)
        if len(self._norms) == 2:
            inputs = mx.concatenate([self["input_layernorm"](embedded), normed], axis=-1)
        residual = normed if self._norm_first else states
        states = residual + self.self_attn(inputs, cache, self._window, rope)
        return states + self.mlp(self.post_attention_layernorm(states))


class Eagle3Model(Module):
    """`fuse` turns the target's hidden states into the drafter's, the layers run on these."""

    def __init__(self, config: Eagle3Config, names: Names) -> None:
        super().__init__()
        hidden, self._reads = config.hidden_size, config.fused
        if "fc.weight" in names:
            self.fc = Linear(config.fused, hidden, bias="fc.bias" in names)
        if config.norms == "whole":
            self.input_norm = RMSNorm(config.fused, eps=config.eps)
        elif config.norms == "each":
            width = config.fused // config.taps
            self.fc_norm = [RMSNorm(width, eps=config.eps) for _ in range(config.taps)]
        self.layers = [Layer(config, i, names) for i in range(config.layers)]
        self.norm = RMSNorm(hidden, eps=config.eps)
        self._norms, self._hidden = config.norms, hidden
        self._rope: Any = initialize_rope(
            config.head_dim,
            base=config.rope_theta,
            traditional=False,
            scaling_config=dict(config.rope) if config.rope else None,
            max_position_embeddings=config.max_positions,
        )

    def fuse(self, states: mx.array) -> mx.array:
        """Hidden states side by side, (1, n, taps · their width) → (1, n, hidden)."""
        if states.shape[-1] == self._hidden:
            return states
        if self._norms == "whole":
            states = self.input_norm(states)
        elif self._norms == "each":
            parts = mx.split(states, len(self.fc_norm), axis=-1)
            normed = [norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)]
            states = mx.concatenate(normed, axis=-1)
        found: mx.array = self.fc(states)
        return found

    def __call__(self, embedded: mx.array, states: mx.array, caches: Sequence[KVCache]) -> mx.array:
        """Embedded tokens and the states before each, (1, n, hidden) → (1, n, hidden), before
        `norm`."""
        for layer, cache in zip(self.layers, caches, strict=True):
            states = layer(embedded, states, cache, self._rope)
        return states
