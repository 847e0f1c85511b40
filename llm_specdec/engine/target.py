"""The target model: loaded by mlx-lm, run one pass at a time."""

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.utils import _get_classes, load_model, load_tokenizer

from llm_specdec.anatomy import files, heads
from llm_specdec.engine.rollback import TargetCache
from llm_specdec.errors import CheckpointError, UnsupportedError

# The context is checked by the caller, who can say what to do about it.
logging.getLogger("transformers.tokenization_utils_base").setLevel(logging.ERROR)

ModelClasses = Callable[[dict[str, Any]], tuple[type[Module], type]]


class Target:
    """A causal language model of mlx-lm.

    Source: mlx_lm.utils.load_model; `model(tokens (1, n), cache=…) → logits (1, n, vocab)`.
    """

    def __init__(self, model: Module, config: dict[str, Any], folder: Path | None = None) -> None:
        self.model, self.config, self.folder = model, config, folder
        language: Any = getattr(model, "language_model", model)
        self._language, self._body = language, language.model

    @functools.cached_property
    def tokenizer(self) -> Any:
        """mlx-lm's TokenizerWrapper. Raises CheckpointError."""
        try:
            return load_tokenizer(self.folder, eos_token_ids=self.config.get("eos_token_id"))
        except Exception as error:  # transformers and tokenizers raise what they like
            raise CheckpointError(f"{self.folder}: its tokenizer does not load: {error}") from error

    @functools.cached_property
    def vocab_size(self) -> int:
        """Columns of the logits, padding included."""
        return int(self._output_matrix.weight.shape[0])

    @property
    def context(self) -> int:
        """Tokens the model was made for."""
        config = self.config.get("text_config", self.config)
        return int(config.get("max_position_embeddings", 1 << 17))

    def forward(self, tokens: mx.array, cache: TargetCache) -> mx.array:
        """Run one pass over `tokens` (n,) after what `cache` covers; lazily (n, vocab)."""
        cache.before_forward(tokens.shape[0])
        logits: mx.array = self.model(tokens[None], cache=cache.layers)
        return logits[0]

    def embed(self, tokens: mx.array) -> mx.array:
        """Input embeddings, (n,) → (n, hidden)."""
        embedded: mx.array = self._body.embed_tokens(tokens)
        return embedded

    def head(self, hidden: mx.array) -> mx.array:
        """Logits of hidden states after the final norm, (n, hidden) → (n, vocab)."""
        matrix = self._output_matrix
        logits: mx.array = (
            matrix.as_linear(hidden) if matrix is self._body.embed_tokens else matrix(hidden)
        )
        return logits

    @property
    def _output_matrix(self) -> Any:
        return self._language.get("lm_head", self._body.embed_tokens)


def load(folder: Path) -> Target:
    """Load weights into memory.

    Raises: CheckpointError, UnsupportedError (no such architecture in mlx-lm).
    """
    try:
        model, config = load_model(folder, get_model_classes=_without(_head_tensors(folder)))
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} holds no model that can be loaded: {error}") from error
    except ValueError as error:
        raise UnsupportedError(f"mlx-lm cannot load {folder}: {error}") from error
    # Evaluated here, on this thread: a lazy weight evaluated by another thread has no stream.
    mx.eval(model.parameters())
    return Target(model, config, folder)


def _head_tensors(folder: Path) -> frozenset[str]:
    found = heads.find(files.read_tensors(files.weight_files(folder)))
    return frozenset(found.tensors if found else ())


def _without(names: frozenset[str]) -> ModelClasses:
    """mlx-lm's choice of classes, with a model that is not given these tensors: it drops a
    prediction head of some architectures, and refuses the checkpoint of others."""

    def classes(config: dict[str, Any]) -> tuple[type[Module], type]:
        cls, args = _get_classes(config)

        def sanitize(self: Any, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            trunk = {name: value for name, value in weights.items() if name not in names}
            return cls.sanitize(self, trunk) if hasattr(cls, "sanitize") else trunk

        namespace = {"sanitize": sanitize, "__module__": cls.__module__}
        return (type(cls.__name__, (cls,), namespace) if names else cls), args

    return classes
