"""A tokenizer of transformers in plain values, and back without importing transformers.

transformers builds a tokenizer from several files by the rules of its class, and all that it does
afterwards for a prompt and an answer it hands on to the tokenizers library. So what it built is
kept, and the library is asked directly. That holds for classes that hand everything on; others
have no snapshot.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

# What a class must have from transformers' fast tokenizer, not of its own.
_HANDED_ON = (
    "apply_chat_template", "convert_ids_to_tokens", "convert_tokens_to_ids", "decode", "_decode",
    "encode", "_encode_plus", "get_vocab", "__len__", "special_tokens_map",
)  # fmt: skip


def snapshot(tokenizer: Any) -> dict[str, Any] | None:
    """Of a tokenizer of transformers; None where there would be more to it than can be kept."""
    from transformers import PreTrainedTokenizerFast

    cls, backend = type(tokenizer), getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or any(
        getattr(cls, name, None) is not getattr(PreTrainedTokenizerFast, name)
        for name in _HANDED_ON
    ):
        return None
    if backend.truncation or backend.padding or tokenizer.split_special_tokens:
        return None
    if tokenizer.clean_up_tokenization_spaces and type(backend.model).__name__ != "BPE":
        return None  # it takes spaces out of the text
    if getattr(tokenizer, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
               False):  # fmt: skip
        return None
    values = {
        "backend": backend.to_str(),
        "chat_template": tokenizer.chat_template,
        "special_tokens_map": dict(tokenizer.special_tokens_map),
        "eos_token_id": tokenizer.eos_token_id,
        "init_kwargs": {n: v for n, v in tokenizer.init_kwargs.items() if _is_json(v)},
    }
    if not isinstance(values["chat_template"], str | None) or not _is_json(values):
        return None
    again = Tokenizer.from_str(values["backend"])
    same = again.to_str() == values["backend"] and again.get_vocab() == backend.get_vocab()
    return values if same else None


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


class RestoredTokenizer:
    """From a snapshot. It answers what prompts and answers ask of a tokenizer; whatever else it
    is asked for, `whole` is, the tokenizer of transformers, which `load` loads then.

    Raises KeyError, ValueError, TypeError for what is no snapshot.
    """

    def __init__(self, values: Mapping[str, Any], load: Callable[[], Any]) -> None:
        self._load = load
        try:
            self.backend_tokenizer = Tokenizer.from_str(values["backend"])
        except Exception as error:  # the library raises no other
            raise ValueError(str(error)) from None
        self.chat_template: str | None = values["chat_template"]
        self.special_tokens_map: dict[str, str] = values["special_tokens_map"]
        self.eos_token_id: int | None = values["eos_token_id"]
        self.init_kwargs: dict[str, Any] = dict(values["init_kwargs"])

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        found = self.backend_tokenizer.encode_batch([text], add_special_tokens=add_special_tokens)
        return list(found[0].ids)

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False) -> str:
        ids = [ids] if isinstance(ids, int) else list(ids)
        return self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def get_vocab(self) -> dict[str, int]:
        return self._vocab

    @functools.cached_property
    def _vocab(self) -> dict[str, int]:
        return self.backend_tokenizer.get_vocab(with_added_tokens=True)

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        token = self.backend_tokenizer.id_to_token
        return token(ids) if isinstance(ids, int) else [token(int(one)) for one in ids]

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size(with_added_tokens=True)

    @functools.cached_property
    def whole(self) -> Any:
        return self._load()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.whole, name)
