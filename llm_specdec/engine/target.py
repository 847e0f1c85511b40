"""The target model: loaded by mlx-lm, run one pass at a time."""

import contextlib
import copy
import functools
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize

from llm_specdec.checkpoint import Positions, Vocabulary, positions_of
from llm_specdec.engine.hardware import eager_dispatch, skinny_matmul
from llm_specdec.engine.mlx_lm_parts import utils
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.taps import evaluate, modules_of, trunk
from llm_specdec.engine.tokenizer import tokenizer_of, vocabulary_of
from llm_specdec.errors import CheckpointError, UnsupportedError

ModelClasses = Callable[[dict[str, Any]], tuple[type[Module], type]]
EMBEDDING_NAMES = ("embed_tokens", "embeddings", "word_embeddings", "tok_embeddings", "wte")


class Target:
    """A causal language model of mlx-lm.

    vocabulary: ids that have no token get no chance; None: all have.

    Source: mlx_lm.utils.load_model; `model(tokens (1, n), cache=…) → logits (1, n, vocab)`.
    """

    def __init__(
        self,
        model: Module,
        config: dict[str, Any],
        folder: Path | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.model, self.config, self.folder = model, config, folder
        self.vocabulary = vocabulary
        self._narrow: Any = None  # the beginning of the output matrix, see `_first_rows`
        self._tokenless = _tokenless(vocabulary)

    @property
    def tokenizer(self) -> Any:
        """mlx-lm's TokenizerWrapper of the folder the model came from."""
        assert self.folder is not None
        return tokenizer_of(self.folder)

    @functools.cached_property
    def vocab_size(self) -> int:
        """Columns of the logits, up to the last that has a token. Only a graph is built, nothing
        computed."""
        columns = int(self.model(mx.array([[0]])).shape[-1])
        return min(columns, self.vocabulary.size) if self.vocabulary else columns

    @property
    def positions(self) -> Positions:
        return self.vocabulary.positions if self.vocabulary else positions_of(self.config, {})

    def forward(self, tokens: mx.array, cache: RollbackCache) -> mx.array:
        """Run one pass over `tokens` (n,) after what `cache` covers; lazily (n, vocab)."""
        n = tokens.shape[0]
        cache.before_forward(n)
        try:
            logits: mx.array = self.model(tokens[None], cache=cache.layers)
        except BaseException:  # an interrupt too: early layers are ahead of late ones
            cache.rollback(cache.length - n)
            raise
        return self._possible(logits[0])

    def embed(self, tokens: mx.array) -> mx.array:
        """Input embeddings, (n,) → (n, hidden)."""
        embedded: mx.array = self._embedding(tokens)
        return embedded

    def head(self, hidden: mx.array, rows: int | None = None) -> mx.array:
        """Logits of hidden states after the final norm, (n, hidden) → (n, vocab); only those of
        the first `rows` tokens where that is given."""
        matrix = self._first_rows(rows)
        tied = self._output_matrix is self._embedding
        return self._possible(matrix.as_linear(hidden) if tied else matrix(hidden))

    def _possible(self, logits: mx.array) -> mx.array:
        """Logits (n, columns) without a chance for what has no token."""
        if self.vocabulary is None:
            return logits
        logits = logits[:, : self.vocabulary.size]  # a view
        if self._tokenless is None:
            return logits
        return mx.where(self._tokenless[: logits.shape[1]], -mx.inf, logits)

    def _first_rows(self, rows: int | None) -> Any:
        """The output matrix, or the beginning of it: a view, no copy."""
        if rows is None or rows >= self.vocab_size:
            return self._output_matrix
        if self._narrow is None or self._narrow["weight"].shape[0] != rows:
            self._narrow = first_rows(self._output_matrix, rows)
        return self._narrow

    @functools.cached_property
    def _body(self) -> Any:
        return trunk(self.model)

    @functools.cached_property
    def _embedding(self) -> Any:
        for name in EMBEDDING_NAMES:
            if (module := self._body.get(name)) is not None:
                return module
        raise UnsupportedError(
            f"no embedding was found in {type(self._body).__module__}: use --drafter lookup"
        )

    @functools.cached_property
    def _output_matrix(self) -> Any:
        matrices = [m["lm_head"] for m in modules_of(self.model) if m.get("lm_head") is not None]
        return matrices[0] if matrices else self._embedding


def first_rows(matrix: Any, rows: int) -> Any:
    """The beginning of an output matrix, as a module like it."""
    narrow = copy.copy(matrix)
    for name in ("weight", "scales", "biases", "bias"):
        if narrow.get(name) is not None:
            narrow[name] = narrow[name][:rows]
    evaluate(narrow)
    return narrow


def _tokenless(vocabulary: Vocabulary | None) -> mx.array | None:
    """Which ids are holes, (size,) bool; None where none is."""
    if vocabulary is None or not vocabulary.holes:
        return None
    found = mx.zeros((vocabulary.size,), dtype=mx.bool_)
    found[mx.array(vocabulary.holes)] = True
    mx.eval(found)
    return found


def load(
    folder: Path,
    bits: int | None = None,
    group_size: int = 64,
    apart: frozenset[str] = frozenset(),
    vocabulary: Vocabulary | None = None,
) -> Target:
    """Load weights into memory; with `bits` the matrices are quantised, as for a drafter.

    apart: names of tensors in the files that are no part of the language model. vocabulary:
    of a drafter, its target's; None: the one of the folder.
    Raises: CheckpointError, UnsupportedError (no such architecture in mlx-lm).
    """
    with _translated(folder):
        model, config = utils.load_model(folder, get_model_classes=_without(apart))
    if bits:
        _quantise(model, bits, group_size)
    skinny_matmul.rearrange(model)
    eager_dispatch.launch_layers(model)
    evaluate(model)
    return Target(model, config, folder, vocabulary or vocabulary_of(folder))


def check(folder: Path, apart: frozenset[str] = frozenset()) -> None:
    """Raises as `load` would, or the first pass of a run, for what can be found by building the
    model and the graph of that pass: no weight is read, nothing is computed."""
    with _translated(folder):
        model, config = utils.load_model(folder, lazy=True, get_model_classes=_without(apart))
        Target(model, config).forward(mx.array([0, 0]), RollbackCache(model))


@contextlib.contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """mlx-lm's errors as ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} holds no model that can be loaded: {error}") from error
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RuntimeError,
        ArithmeticError,
        AssertionError,
    ) as error:
        # A config that lacks a field raises what it likes; a message may list every tensor.
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        why = textwrap.shorten(f"{kind}{error}", 300, placeholder=" …")
        raise UnsupportedError(f"mlx-lm cannot load {folder}: {why}") from error


def _quantise(model: Module, bits: int, group_size: int) -> None:
    """The matrices that mlx can store so; one that is stored quantised stays as it is."""

    def fits(_: str, module: Module) -> bool:
        return hasattr(module, "to_quantized") and module["weight"].shape[-1] % group_size == 0

    quantize(model, group_size, bits, class_predicate=fits)


def _without(names: frozenset[str]) -> ModelClasses:
    """mlx-lm's choice of classes, with a model that is not given these tensors: it drops a
    prediction head of some architectures, and refuses the checkpoint of others."""

    def classes(config: dict[str, Any]) -> tuple[type[Module], type]:
        cls, args = utils._get_classes(config)

        def sanitize(self: Any, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            trunk = {name: value for name, value in weights.items() if name not in names}
            return cls.sanitize(self, trunk) if hasattr(cls, "sanitize") else trunk

        namespace = {"sanitize": sanitize, "__module__": cls.__module__}
        return (type(cls.__name__, (cls,), namespace) if names else cls), args

    return classes
