"""What a checkpoint holds, from its files alone: no weights, no mlx, and nothing of drafters.

    contents_of(folder) -> CheckpointFiles  config and tensors, or why it is no model
    anatomy_of(contents) -> Anatomy         what it is, in figures
    vocabulary_of(contents, ids) -> Vocabulary   ids with a token, ends, positions
    fingerprint(folder) -> str              changes when the checkpoint does
    compare_tokenizers(a, b) -> list[str]   differences by content

The parts: files (JSON, safetensors headers), contents, caches, weights, positions, vocabulary,
tokenizer, anatomy (all of them together), fingerprints. `drafters.recognise` tells targets and
drafters apart.
"""

from llm_specdec.checkpoint.anatomy import TARGET, Anatomy, anatomy_of
from llm_specdec.checkpoint.contents import NO_MODEL, CheckpointFiles, contents_of
from llm_specdec.checkpoint.fingerprints import fingerprint
from llm_specdec.checkpoint.positions import Positions, positions_of
from llm_specdec.checkpoint.tokenizer import compare_tokenizers
from llm_specdec.checkpoint.vocabulary import TokenIds, Vocabulary, vocabulary_of

__all__ = [
    "NO_MODEL",
    "TARGET",
    "Anatomy",
    "CheckpointFiles",
    "Positions",
    "TokenIds",
    "Vocabulary",
    "anatomy_of",
    "compare_tokenizers",
    "contents_of",
    "fingerprint",
    "positions_of",
    "vocabulary_of",
]
