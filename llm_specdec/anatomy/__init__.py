"""What a checkpoint is, from its files alone: no weights, no mlx.

    read(folder) -> Anatomy                 what it is, in figures
    kind_of(folder) -> Kind                 target, drafter or something else
    fingerprint(folder) -> str              changes when the checkpoint does
    compare_tokenizers(a, b) -> list[str]   differences by content

The parts: files (JSON, safetensors headers), heads, caches, weights, tokenizer,
checkpoint (all of them together), fit (does this drafter suit this target).
"""

from llm_specdec.anatomy.checkpoint import (
    KIND_WORDS,
    Anatomy,
    DFlash,
    Kind,
    fingerprint,
    kind_of,
    read,
)
from llm_specdec.anatomy.heads import Head
from llm_specdec.anatomy.tokenizer import chat_template, compare_tokenizers

__all__ = [
    "KIND_WORDS",
    "Anatomy",
    "DFlash",
    "Head",
    "Kind",
    "chat_template",
    "compare_tokenizers",
    "fingerprint",
    "kind_of",
    "read",
]
