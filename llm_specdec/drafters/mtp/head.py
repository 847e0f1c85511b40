"""The head's forward pass: two norms, a projection, one decoder layer of the target's."""

import inspect
from collections.abc import Iterable
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Identity, Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx.utils import tree_flatten
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import CacheList, KVCache, make_prompt_cache

from llm_specdec.engine.taps import class_of, decoder_layers
from llm_specdec.errors import UnsupportedError


class PredictionHead(Module):
    """One prediction layer; slot p of its cache takes (token p+1, hidden state p)."""

    def __init__(
        self, layer: Module, hidden_size: int, eps: float, hidden_first: bool, normed: bool = True
    ):
        super().__init__()
        self.embedding_norm = RMSNorm(hidden_size, eps)
        self.hidden_norm = RMSNorm(hidden_size, eps)
        self.projection = Linear(2 * hidden_size, hidden_size, bias=False)
        self.layer = layer
        self.norm = RMSNorm(hidden_size, eps) if normed else Identity()
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


class Blocks(Module):
    """Blocks of a target that mixes attention and others, as one layer. One of them attends."""

    def __init__(self, blocks: list[Module]):
        super().__init__()
        self.blocks = blocks

    def __call__(self, states: mx.array, mask: mx.array | None, cache: KVCache) -> mx.array:
        for block in self.blocks:
            attends = block.block_type == "*"
            states = block(states, mask=mask, cache=cache) if attends else block(states)
        return states


def template_index(model: Module, names: Iterable[str] = ()) -> int:
    """The target's last layer with full attention: the head's layer is of its kind. Of several
    kinds, that whose parameters have these names (`layer.…`), if there is one.

    Raises UnsupportedError when the target has none.
    """
    layers = [i for i, layer in enumerate(decoder_layers(model)) if "self_attn" in layer]
    wanted = {name.rpartition(".")[0] for name in names if name.startswith("layer.")}
    for index in reversed(layers):
        held = dict(tree_flatten(model.layers[index].parameters()))
        if {f"layer.{name}".rpartition(".")[0] for name in held} == wanted:
            return index
    if layers:
        return layers[-1]
    raise UnsupportedError(
        f"{model.model_type}: no attention layer to build the prediction head from; "
        "use --drafter lookup"
    )


def build(
    model: Module, hidden_first: bool, normed: bool = True, names: Iterable[str] = ()
) -> PredictionHead:
    """An unloaded head for this target, its layer constructed as the target's own were.
    names: of the parameters it will hold.

    Raises UnsupportedError when the target's layers cannot be built from its arguments.
    """
    args, names = text_model(model).args, list(names)
    if any(name.startswith("layer.blocks.") for name in names):
        blocks = _blocks(model, names)
        return PredictionHead(blocks, args.hidden_size, _epsilon(args), hidden_first, normed)
    index = template_index(model, names)
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
    return PredictionHead(layer, args.hidden_size, _epsilon(args), hidden_first, normed)


def _epsilon(args: Any) -> float:
    names = ("rms_norm_eps", "layer_norm_epsilon")
    return next(float(getattr(args, name)) for name in names if hasattr(args, name))


def _blocks(model: Module, names: Iterable[str]) -> Blocks:
    """Blocks of the kinds that the names tell. Raises UnsupportedError for any but attention,
    once, experts and MLP."""
    held: dict[int, set[str]] = {}
    for name in names:
        if name.startswith("layer.blocks."):
            _, _, number, *rest = name.split(".")
            held.setdefault(int(number), set()).add(".".join(rest[:2]))
    marks = {"mixer.q_proj": "*", "mixer.gate": "E", "mixer.up_proj": "-"}
    kinds = [
        next((kind for mark, kind in marks.items() if mark in held[number]), "")
        for number in sorted(held)
    ]
    first = decoder_layers(model)[0]
    if kinds.count("*") != 1 or "" in kinds or not hasattr(first, "block_type"):
        raise UnsupportedError(
            f"{model.model_type}: a prediction head of these blocks cannot be built; "
            "use --drafter lookup"
        )
    kind = class_of(first)
    return Blocks([kind(text_model(model).args, block_type) for block_type in kinds])
