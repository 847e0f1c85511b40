"""A model's tokenizer as mlx-lm loads it, mended where it would crash or give other text."""

import functools
import logging
import textwrap
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from mlx_lm import tokenizer_utils
from mlx_lm.tokenizer_utils import BPEStreamingDetokenizer, SPMStreamingDetokenizer
from mlx_lm.utils import _tokenizer_defaults
from tokenizers import decoders, pre_tokenizers

from llm_specdec import checkpoint
from llm_specdec.checkpoint import TokenIds, Vocabulary, files
from llm_specdec.errors import CheckpointError

# The context is checked by the caller, who can say what to do about it.
logging.getLogger("transformers.tokenization_utils_base").setLevel(logging.ERROR)


@functools.cache
def tokenizer_of(folder: Path) -> Any:
    """mlx-lm's TokenizerWrapper, with the end tokens of `vocabulary_of`.

    Raises: CheckpointError.
    """
    found = _loaded(folder)
    found.eos_token_ids = vocabulary_of(folder).ends
    return found


@functools.cache
def vocabulary_of(folder: Path) -> Vocabulary:
    """The table of a model's ids, by its tokenizer as it is loaded. Raises: CheckpointError."""
    found = _loaded(folder)
    tokens = TokenIds({*found.get_vocab().values()}, found.eos_token_id)
    return checkpoint.vocabulary_of(checkpoint.contents_of(folder), tokens)


@functools.cache
def _loaded(folder: Path) -> Any:
    files.check_folder(folder)
    files.read_config(folder / "config.json")
    try:
        found = _load(folder, defaults=_tokenizer_defaults(folder))
        _mend_decoder(found)
    except Exception as error:  # transformers and tokenizers raise what they like
        why = textwrap.shorten(str(error), 300, placeholder=" …")
        raise CheckpointError(f"{folder}: its tokenizer does not load: {why}") from error
    return found


class _Bytes(BPEStreamingDetokenizer):  # type: ignore[misc]
    """mlx-lm's counts the entries to find the last id, which is further on where ids are left
    out."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenmap = _pieces(tokenizer)
        self.reset()


class _Sentencepiece(SPMStreamingDetokenizer):  # type: ignore[misc]
    """As `_Bytes`; mlx-lm's does not take a hole for a piece."""

    def __init__(self, tokenizer: Any, trim_space: bool = True) -> None:
        self.trim_space = trim_space
        self.tokenmap = [_bytes_of(piece) for piece in _pieces(tokenizer)]
        self.reset()


def _pieces(tokenizer: Any) -> list[str]:
    """Pieces by id, "" where there is none."""
    vocabulary = tokenizer.get_vocab()
    found = [""] * (max(vocabulary.values(), default=-1) + 1)
    for piece, token in vocabulary.items():
        found[token] = piece
    return found


def _bytes_of(piece: str) -> bytes:
    """A piece such as <0x0A> is the byte that it names."""
    return bytes([int(piece[3:5], 16)]) if piece.startswith("<0x") else piece.encode()


# mlx-lm's own loader with these in the place of its classes: a copy, nothing there is changed.
_load = types.FunctionType(
    tokenizer_utils.load.__code__,
    vars(tokenizer_utils)
    | {"BPEStreamingDetokenizer": _Bytes, "SPMStreamingDetokenizer": _Sentencepiece},
    argdefs=tokenizer_utils.load.__defaults__,
)


def _mend_decoder(found: Any) -> None:
    """Pieces that stand for bytes are text only when they are read as bytes, whatever the file
    has for a decoder."""
    backend = getattr(found, "backend_tokenizer", None)
    if backend is None or isinstance(backend.decoder, decoders.ByteLevel):
        return
    if _spells_bytes(backend.pre_tokenizer):
        backend.decoder = decoders.ByteLevel()
        found._detokenizer = _Bytes(found._tokenizer)


def _spells_bytes(step: Any) -> bool:
    if isinstance(step, pre_tokenizers.Sequence):
        return any(_spells_bytes(one) for one in cast(Iterable[Any], step))
    return isinstance(step, pre_tokenizers.ByteLevel)
