"""The head's forward pass: two norms, a projection, one decoder layer of the target's."""

import inspect
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import CacheList, KVCache, make_prompt_cache

from llm_specdec.engine.taps import class_of, decoder_layers
from llm_specdec.errors import UnsupportedError


class PredictionHead(Module):
    """One prediction layer; slot p of its cache takes (token p+1, hidden state p)."""

    def __init__(self, layer: Module, hidden_size: int, eps: float, hidden_first: bool):
        super().__init__()
        self.embedding_norm = RMSNorm(hidden_size, eps)
        self.hidden_norm = RMSNorm(hidden_size, eps)
        self.projection = Linear(2 * hidden_size, hidden_size, bias=False)
        self.layer = layer
        self.norm = RMSNorm(hidden_size, eps)
        self.hidden_first = hidden_first

    def __call__(self, embedded: mx.array, hidden: mx.array, cache: KVCache) -> mx.array:
        """embedded, hidden (1, n, hidden_size) → (1, n, hidden_size), before `norm`."""
        halves = [self.embedding_norm(embedded), self.hidden_norm(hidden)]
        if self.hidden_first:
            halves.reverse()
        states = self.projection(mx.concatenate(halves, axis=-1))
        mask = create_attention_mask(states, cache, return_array=True)  # arrays suit MLA too
        output: mx.array = self.layer(states, mask, cache=cache)
        return output


def text_model(model: Module) -> Module:
    """The language model inside a target that mlx-lm wraps for its vision tower."""
    inner: Module = model.language_model if "language_model" in model else model
    return inner


def template_index(model: Module) -> int:
    """The target's last layer with full attention: the head's layer is of its kind.

    Raises UnsupportedError when the target has none.
    """
    for index, layer in reversed(list(enumerate(decoder_layers(model)))):
        if "self_attn" in layer:
            return index
    raise UnsupportedError(
        f"{model.model_type}: no attention layer to build the prediction head from; "
        "use --drafter lookup"
    )


def build(model: Module, hidden_first: bool) -> PredictionHead:
    """An unloaded head for this target, its layer constructed as the target's own were.

    Raises UnsupportedError when the target's layers cannot be built from its arguments.
    """
    args = text_model(model).args
    index = template_index(model)
    if any(isinstance(cache, CacheList) for cache in make_prompt_cache(model)):
        raise UnsupportedError(
            f"{model.model_type}: its layers keep more than keys and values, which no prediction "
            "head here does; use --drafter lookup"
        )
    kind = class_of(model.layers[index])
    given: dict[str, Any] = {}
    for name in list(inspect.signature(kind).parameters)[1:]:
        if name in ("layer_idx", "idx", "index", "layer_index"):
            given[name] = index
    try:
        layer = kind(args, **given)
    except (TypeError, AttributeError) as error:
        raise UnsupportedError(
            f"{model.model_type}: its decoder layer cannot be built for a prediction head "
            f"({error}); use --drafter lookup"
        ) from error
    return PredictionHead(layer, args.hidden_size, args.rms_norm_eps, hidden_first)
