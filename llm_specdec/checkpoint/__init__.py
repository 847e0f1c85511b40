"""What a checkpoint is, from its files alone: no weights, no mlx.

    read(folder) -> Anatomy                 what it is, in figures
    kind_of(folder) -> Kind                 target, drafter or something else
    fingerprint(folder) -> str              changes when the checkpoint does
    compare_tokenizers(a, b) -> list[str]   differences by content

The parts: files (JSON, safetensors headers), kinds, heads, dflash, caches, weights, tokenizer,
anatomy (all of them together), fingerprints, fit (does this drafter suit this target).
"""

from llm_specdec.checkpoint.anatomy import Anatomy, read
from llm_specdec.checkpoint.fingerprints import fingerprint
from llm_specdec.checkpoint.kinds import KIND_WORDS, kind_of
from llm_specdec.checkpoint.tokenizer import compare_tokenizers

__all__ = ["KIND_WORDS", "Anatomy", "compare_tokenizers", "fingerprint", "kind_of", "read"]
