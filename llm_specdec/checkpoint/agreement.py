"""Does a config describe the tensors beside it? Asked before anything is allocated by it.

mlx-lm builds a model as its config says and compares it with the weights afterwards. A config
that promises ten million layers would have taken all memory by then.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from llm_specdec.checkpoint import caches, weights
from llm_specdec.checkpoint.files import Tensor

_LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_transformer_layers")
# Whatever else mlx-lm makes a module for each of.
_COUNTS = (*_LAYERS, "altup_num_inputs", "mtp_num_hidden_layers", "num_nextn_predict_layers")
_EMBEDDINGS = {
    "embed_tokens", "wte", "word_embeddings", "tok_embeddings", "token_embeddings", "embed_in",
    "embeddings",
}  # fmt: skip


def counts(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Why there cannot be as many parts as the config counts; "" where there can."""
    for key in _COUNTS:
        value = config.get(key)
        if isinstance(value, int) and value > len(tensors):
            return f"{key} is {value:,}, and the files hold {len(tensors):,} tensors in all"
    highest = max(caches.layers_of(tensors), default=0)
    if highest >= len(tensors):
        return f"there are tensors of a layer {highest:,}, and {len(tensors):,} tensors in all"
    return ""


def problem(config: Mapping[str, Any], text: Mapping[str, Any], trunk: Mapping[str, Tensor]) -> str:
    """What a target's config says otherwise than its tensors; "" where they agree.

    text: the config of the language model, which may be `config` or a part of it.
    """
    held = len(caches.layers_of(trunk))
    for key in _LAYERS:
        value = text.get(key)
        if isinstance(value, int) and held and value > held:
            return f"{key} is {value:,}, and the files hold {held:,} layers"
    return _embedding_problem(config, text, trunk)


def _embedding_problem(
    config: Mapping[str, Any], text: Mapping[str, Any], trunk: Mapping[str, Tensor]
) -> str:
    names = embeddings(trunk)
    if len(names) != 1:
        return ""
    (name,) = names
    rows, width = trunk[name].rows, weights.columns(name, trunk, dict(config))
    # A config of two parts may differ in what it says of both; mlx-lm reads one or the other.
    sizes = {place.get("embedding_size", place.get("vocab_size")) for place in (config, text)}
    said = {size for size in sizes if size}
    if said and rows not in said:
        return f"vocab_size is {max(said):,}, and the embedding has {rows:,} rows"
    hidden = text.get("hidden_size")
    if hidden and width != hidden:
        return f"hidden_size is {hidden:,}, and the embedding is {width:,} wide"
    return ""


def embeddings(tensors: Iterable[str]) -> list[str]:
    """Names of the tensors that may be the language model's embedding of tokens."""
    return [name for name in tensors if weights.is_text(name) and _is_embedding(name)]


def _is_embedding(name: str) -> bool:
    module, _, kind = name.rpartition(".")
    return kind == "weight" and module.rpartition(".")[2] in _EMBEDDINGS
