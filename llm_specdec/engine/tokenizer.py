"""A model's tokenizer as mlx-lm loads it, mended where it would crash or give other text.

To load one takes longer than to read a small model's weights, most of it for transformers. A
tokenizer that was loaded once can be kept (`snapshot`) and given back (`restore`) to a process
that then imports no transformers.
"""

import functools
import json
import logging
import textwrap
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from tokenizers import decoders, pre_tokenizers

from llm_specdec import checkpoint
from llm_specdec.checkpoint import TokenIds, Vocabulary, files
from llm_specdec.engine import tokenizer_snapshot
from llm_specdec.engine.mlx_lm_parts import (
    tokenizer_utils,
    tokenizer_utils_with_transformers,
    utils,
)
from llm_specdec.engine.tokenizer_snapshot import RestoredTokenizer
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


def of_files(folder: Path) -> Any:
    """The same for a folder whose weights need not be there: its end tokens are those that the
    tokenizer names. Raises: CheckpointError."""
    return _loaded(folder)


@functools.cache
def vocabulary_of(folder: Path) -> Vocabulary:
    """The table of a model's ids, by its tokenizer as it is loaded. Raises: CheckpointError."""
    found = _loaded(folder)
    tokens = TokenIds({*found.get_vocab().values()}, found.eos_token_id)
    return checkpoint.vocabulary_of(checkpoint.contents_of(folder), tokens)


def snapshot(folder: Path) -> str | None:
    """The tokenizer of a folder, to be kept; None where it was restored itself, or cannot be.
    Raises: CheckpointError."""
    plain = _loaded(folder)._tokenizer
    if isinstance(plain, RestoredTokenizer):
        return None
    values = tokenizer_snapshot.snapshot(_whole(folder)._tokenizer)
    return None if values is None else json.dumps(values)


def restore(folder: Path, kept: str) -> bool:
    """Use a `snapshot` of the folder's tokenizer, where nothing has loaded it yet. Whether it was
    one; what it is a snapshot of, the caller knows."""
    if folder not in _tokenizers:
        try:
            plain = RestoredTokenizer(json.loads(kept), lambda: _mended(_whole(folder))._tokenizer)
            _tokenizers[folder] = _mended(_by_mlx_lm(folder, tokenizer_utils, lambda _: plain))
        except Exception:  # it may be anything
            return False
    return True


_tokenizers: dict[Path, Any] = {}


def _loaded(folder: Path) -> Any:
    if folder not in _tokenizers:
        _tokenizers[folder] = _mended(_whole(folder))
    return _tokenizers[folder]


def _whole(folder: Path) -> Any:
    """As mlx-lm loads it, with transformers."""
    files.check_folder(folder)
    files.read_config(folder / "config.json")
    module = tokenizer_utils_with_transformers()
    try:
        return _by_mlx_lm(folder, module, module.AutoTokenizer.from_pretrained)
    except Exception as error:  # transformers and tokenizers raise what they like
        why = textwrap.shorten(str(error), 300, placeholder=" …")
        raise CheckpointError(f"{folder}: its tokenizer does not load: {why}") from error


def _by_mlx_lm(folder: Path, module: Any, from_pretrained: Callable[[Path], Any]) -> Any:
    """By the code of mlx-lm's own loader, with our detokenizers and this way to a tokenizer: a
    copy, nothing there is changed."""
    given = {
        "AutoTokenizer": types.SimpleNamespace(from_pretrained=from_pretrained),
        "BPEStreamingDetokenizer": _Bytes,
        "SPMStreamingDetokenizer": _Sentencepiece,
    }
    load = types.FunctionType(
        module.load.__code__, vars(module) | given, argdefs=module.load.__defaults__
    )
    return load(folder, defaults=utils._tokenizer_defaults(folder))


class _Bytes(tokenizer_utils.BPEStreamingDetokenizer):  # type: ignore[misc]
    """mlx-lm's counts the entries to find the last id, which is further on where ids are left
    out."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenmap = _pieces(tokenizer)
        self.reset()


class _Sentencepiece(tokenizer_utils.SPMStreamingDetokenizer):  # type: ignore[misc]
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


def _mended(found: Any) -> Any:
    """Pieces that stand for bytes are text only when they are read as bytes, whatever the file
    has for a decoder."""
    backend = getattr(found, "backend_tokenizer", None)
    if backend is None or isinstance(backend.decoder, decoders.ByteLevel):
        return found
    if _spells_bytes(backend.pre_tokenizer):
        backend.decoder = decoders.ByteLevel()
        found._detokenizer = _Bytes(found._tokenizer)
    return found


def _spells_bytes(step: Any) -> bool:
    if isinstance(step, pre_tokenizers.Sequence):
        return any(_spells_bytes(one) for one in cast(Iterable[Any], step))
    return isinstance(step, pre_tokenizers.ByteLevel)
