"""The mathematics of DFlash and DFlash 2, one sequence at a time: activations are (rows, hidden).

Source: the PyPI package `dflash` 0.1.0, whose proposals these equal; nothing is shared with it.
Keys and values of new context rows and of the block are computed in one product a layer, and
the block's are written behind the context's, where the next rows overwrite them.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal

import mlx.core as mx
import numpy as np
from mlx.nn.layers.activations import silu
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models.rope_utils import initialize_rope

from llm_specdec.drafters.dflash.config import DFlashConfig, Rope

Sublayer = Callable[[mx.array], mx.array]

_STEP = 256  # rows of room a full buffer grows by
_GROUP = 128  # columns a group; see `best`


class ContextCache:
    """Keys and values of committed positions, a buffer a layer: (1, kv_heads, room, head_dim).

    Row 0 is position `first`, `rows` rows hold committed positions. `keep` is how many of the
    last ones the layers can still see, None for all.
    """

    def __init__(self, config: DFlashConfig, dtype: mx.Dtype) -> None:
        empty = mx.zeros((1, config.kv_heads, 0, config.head_dim), dtype=dtype)
        self.keys, self.values = [empty] * config.layers, [empty] * config.layers
        self.keep = config.context_kept
        self.first = self.rows = 0

    @property
    def position(self) -> int:
        """The position that follows the last row."""
        return self.first + self.rows

    def reserve(self, rows: int) -> None:
        """Make room for that many rows more; rows out of sight are dropped on the way."""
        if self.rows + rows <= self.keys[0].shape[2]:
            return
        kept = self.rows if self.keep is None else min(self.rows, self.keep)
        drop, room = self.rows - kept, rows + _STEP
        self.keys = [self._moved(buffer, drop, room) for buffer in self.keys]
        self.values = [self._moved(buffer, drop, room) for buffer in self.values]
        self.first, self.rows = self.first + drop, kept

    def _moved(self, buffer: mx.array, drop: int, room: int) -> mx.array:
        _, heads, _, dim = buffer.shape
        free = mx.zeros((1, heads, room, dim), dtype=buffer.dtype)
        return mx.concatenate([buffer[..., drop : self.rows, :], free], axis=2)

    def write(self, layer: int, keys: mx.array, values: mx.array) -> None:
        """Put rows behind the committed ones without counting them as committed."""
        span = slice(self.rows, self.rows + keys.shape[2])
        self.keys[layer][..., span, :] = keys
        self.values[layer][..., span, :] = values

    def stored(self) -> list[mx.array]:
        """Exactly the committed rows still in sight: keys and values of each layer in turn."""
        start = 0 if self.keep is None else max(0, self.rows - self.keep)
        pairs = zip(self.keys, self.values, strict=True)
        return [buffer[..., start : self.rows, :] for pair in pairs for buffer in pair]

    def restore(self, arrays: list[mx.array], position: int) -> None:
        """Take in `stored()` of a cache whose next position was `position`, or a later one
        where no row had gone out of sight."""
        cut = [array[..., :position, :] for array in arrays]  # never written to: see `reserve`
        self.keys, self.values = cut[::2], cut[1::2]
        self.rows = self.keys[0].shape[2]
        self.first = position - self.rows


class BlockAttention(Module):
    """Rows of the block attend to the context and to the block; (rows, hidden) in and out."""

    def __init__(self, config: DFlashConfig, layer: int) -> None:
        super().__init__()
        hidden, dim = config.hidden_size, config.head_dim
        self.q_proj = Linear(hidden, config.heads * dim, bias=False)
        self.kv_proj = Linear(hidden, 2 * config.kv_heads * dim, bias=False)
        self.o_proj = Linear(config.heads * dim, hidden, bias=False)
        self.q_norm = RMSNorm(dim, eps=config.eps)
        self.k_norm = RMSNorm(dim, eps=config.eps)
        self._layer, self._dim, self._kv_heads = layer, dim, config.kv_heads
        self._window, self._causal = config.windows[layer], config.causal[layer]
        self._scale = dim**-0.5

    def keys_and_values(self, rows: mx.array) -> tuple[mx.array, mx.array]:
        """(n, kv_heads, head_dim) each, before they are turned."""
        projected = self.kv_proj(rows).reshape(rows.shape[0], 2, self._kv_heads, self._dim)
        return self.k_norm(projected[:, 0]), projected[:, 1]

    def queries(self, x: mx.array) -> tuple[mx.array, mx.array | None]:
        """(n, heads, head_dim) before they are turned, and what each element of the result
        (n, heads · head_dim) is multiplied by; None: by nothing."""
        return self.q_norm(self.q_proj(x).reshape(x.shape[0], -1, self._dim)), None

    def store(self, rows: mx.array, cache: ContextCache, rope: Module) -> None:
        """Write keys and values of rows that follow the committed ones."""
        keys, values = self.keys_and_values(rows)
        turned = rope(keys.swapaxes(0, 1)[None], offset=cache.position)
        cache.write(self._layer, turned, values.swapaxes(0, 1)[None])

    def __call__(
        self, x: mx.array, context: mx.array | None, cache: ContextCache, rope: Module
    ) -> mx.array:
        block = x.shape[0]
        self.store(x if context is None else mx.concatenate([context, x]), cache, rope)
        stop = cache.rows + (0 if context is None else context.shape[0])  # end of the context
        start = 0 if self._window is None else max(0, stop - self._window + 1)
        queries, gate = self.queries(x)
        attended = mx.fast.scaled_dot_product_attention(
            rope(queries.swapaxes(0, 1)[None], offset=cache.first + stop),
            cache.keys[self._layer][..., start : stop + block, :],
            cache.values[self._layer][..., start : stop + block, :],
            scale=self._scale,
            mask=visible(block, stop - start, self._window, self._causal),
        )
        rows = attended[0].swapaxes(0, 1).reshape(block, -1)
        found: mx.array = self.o_proj(rows if gate is None else rows * gate)
        return found


@lru_cache(maxsize=64)
def visible(
    block: int, context: int, window: int | None, causal: bool
) -> mx.array | Literal["causal"] | None:
    """Which of context + block each row of the block sees: an attention mask
    (block, context + block), or its short name, or None where all is seen.

    A window counts back from the row itself and limits the context only: a row never loses
    sight of its own block to it.
    """
    if window is None or context + block <= window:
        return "causal" if causal else None
    row = context + np.arange(block)[:, None]
    column = np.arange(context + block)[None]
    seen = (column >= context) | (row - column < window)
    return mx.array(seen & (column <= row) if causal else seen)


class MLP(Module):
    def __init__(
        self, config: DFlashConfig, activation: Callable[[mx.array], mx.array] = silu
    ) -> None:
        super().__init__()
        self._activation = activation
        self.gate_up_proj = Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        gate, up = mx.split(self.gate_up_proj(x), 2, axis=-1)
        found: mx.array = self.down_proj(self._activation(gate) * up)
        return found


class Convolution(Module):
    """DFlash 2: causal convolutions over the block, before and after a sublayer.

    Both kernels are a learned base plus a part that depends on the row, shared by the channels
    of a group: both parts come from the sublayer's input.
    """

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        hidden, width = config.hidden_size, config.conv_kernel
        self._groups = hidden // config.conv_group
        self.base_kernel = mx.zeros((2, width, hidden))
        self.kernel_projection = Linear(hidden, 2 * width * self._groups, bias=False)

    def around(self, x: mx.array, sublayer: Sublayer) -> mx.array:
        rows, (_, width, hidden) = x.shape[0], self.base_kernel.shape
        base = self.base_kernel.reshape(2, width, self._groups, -1)
        dynamic = self.kernel_projection(x).reshape(rows, 2, width, self._groups, 1)
        kernels = (base + dynamic).reshape(rows, 2, width, hidden)
        return convolve(sublayer(convolve(x, kernels[:, 0])), kernels[:, 1])


def convolve(x: mx.array, kernels: mx.array) -> mx.array:
    """Row t: the sum over i of kernels[t, i] · x[t - i], x being 0 before row 0.

    Shapes: x (rows, hidden), kernels (rows, width, hidden) → (rows, hidden).
    """
    rows, width, hidden = kernels.shape
    padded = mx.concatenate([mx.zeros((width - 1, hidden), dtype=x.dtype), x])
    found = kernels[:, 0] * x
    for i in range(1, width):
        found = found + kernels[:, i] * padded[width - 1 - i : width - 1 - i + rows]
    return found


class Layer(Module):
    def __init__(self, config: DFlashConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.eps)
        self.self_attn = BlockAttention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.eps)
        self.mlp = MLP(config)
        self._convolves = config.version == 2
        if self._convolves:
            self.attention_conv = Convolution(config)
            self.mlp_conv = Convolution(config)

    def __call__(self, x: mx.array, attend: Sublayer) -> mx.array:
        normed = self.input_layernorm(x)
        x = x + (self.attention_conv.around(normed, attend) if self._convolves else attend(normed))
        normed = self.post_attention_layernorm(x)
        return x + (self.mlp_conv.around(normed, self.mlp) if self._convolves else self.mlp(normed))


class Selector(Module):
    """DFlash 2: chooses among the best candidates of every slot by what stands before them."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.predecessor_codebook = Embedding(config.vocab_size, config.selector_rank)
        self.successor_codebook = Embedding(config.vocab_size, config.selector_rank)
        self.hidden_projection = Linear(config.hidden_size, config.selector_rank, bias=False)

    def scores(
        self, hidden: mx.array, unary: mx.array, candidates: mx.array, anchor: int
    ) -> mx.array:
        """Scores of every candidate after every candidate of the slot before it.

        Shapes: hidden (k, hidden), unary and candidates (k, c) → (k, c, c); [i, a, b] is
        candidate b of slot i after candidate a of slot i - 1. Before slot 0 stands `anchor`.
        """
        first = mx.full((1, candidates.shape[1]), anchor, dtype=candidates.dtype)
        before = self.predecessor_codebook(mx.concatenate([first, candidates[:-1]]))
        after = self.successor_codebook(candidates)
        weights = self.hidden_projection(hidden)[:, None]
        found: mx.array = unary[:, None] + (before * weights) @ after.swapaxes(1, 2)
        return found


def best(logits: mx.array, c: int) -> mx.array:
    """The c highest columns of each row, (k, vocab) → (k, c), in no order.

    The best c columns lie in the c groups with the highest maxima: finding those first takes a
    tenth of the time of a partition of the whole row.
    """
    k, vocab = logits.shape
    groups = vocab // _GROUP
    if groups < 4 * c:
        return mx.argpartition(logits, -c, axis=-1)[:, -c:]
    grouped = logits[:, : groups * _GROUP].reshape(k, groups, _GROUP)
    chosen = mx.argpartition(grouped.max(axis=-1), -c, axis=-1)[:, -c:]
    columns = (chosen[..., None] * _GROUP + mx.arange(_GROUP, dtype=chosen.dtype)).reshape(k, -1)
    rest = mx.arange(groups * _GROUP, vocab, dtype=chosen.dtype)
    columns = mx.concatenate([columns, mx.broadcast_to(rest, (k, rest.size))], axis=1)
    values = mx.take_along_axis(logits, columns, axis=1)
    at = mx.argpartition(values, -c, axis=-1)[:, -c:]
    return mx.take_along_axis(columns, at, axis=1)


def _rope(rope: Rope, config: DFlashConfig) -> Any:
    return initialize_rope(
        rope.dims or config.head_dim,
        base=rope.theta,
        traditional=rope.traditional,
        scaling_config=dict(rope.scaling) if rope.scaling else None,
        max_position_embeddings=config.max_positions,
    )


class BlockModel(Module):
    """fc and hidden_norm turn the target's hidden states into context rows; the layers run.

    layer: makes layer i, a module with `self_attn`, called as `Layer` is.
    """

    def __init__(
        self, config: DFlashConfig, layer: Callable[[DFlashConfig, int], Any] | None = None
    ) -> None:
        super().__init__()
        hidden, taps = config.hidden_size, len(config.target_layer_ids)
        self.fc = Linear(taps * hidden, hidden, bias=False)
        self.hidden_norm = RMSNorm(hidden, eps=config.eps)
        self.layers = [(layer or Layer)(config, i) for i in range(config.layers)]
        self.norm = RMSNorm(hidden, eps=config.eps)
        if config.version == 2:
            self.candidate_selector = Selector(config)
        self._first = 0 if config.from_anchor else 1
        self._ropes = [_rope(rope, config) for rope in config.ropes]

    def context(self, taps: mx.array) -> mx.array:
        """Hidden states of the target side by side (n, taps · hidden) → context (n, hidden)."""
        found: mx.array = self.hidden_norm(self.fc(taps))
        return found

    def absorb(self, context: mx.array, cache: ContextCache) -> None:
        """Take in context rows without running a block."""
        cache.reserve(context.shape[0])
        for layer, rope in zip(self.layers, self._ropes, strict=True):
            layer.self_attn.store(context, cache, rope)
        cache.rows += context.shape[0]

    def __call__(self, x: mx.array, context: mx.array | None, cache: ContextCache) -> mx.array:
        """Run the embedded block (b, hidden), taking in new context rows (n, hidden) first;
        returns hidden states of the rows that give draft tokens, after the norm."""
        new = 0 if context is None else context.shape[0]
        cache.reserve(new + x.shape[0])
        for layer, rope in zip(self.layers, self._ropes, strict=True):
            x = layer(x, partial(layer.self_attn, context=context, cache=cache, rope=rope))
        cache.rows += new
        found: mx.array = self.norm(x[self._first :])
        return found
