"""Tokenizers as they were loaded once, kept beside the registry in specdec/tokenizers/.

From one of these a command loads its tokenizer without transformers, whose import takes longer
than the rest of a short answer. They are made of a model's own files and hold no text of a user.
"""

import contextlib
import functools
import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import llm

from llm_specdec import files
from llm_specdec.engine import tokenizer
from llm_specdec.prefix_cache.keys import stamp

FORMAT = "1"  # counts up when a snapshot begins to mean something else
LIMIT = 256 << 20  # bytes of one; those of 250,000 tokens take 20 million
MOST = 12  # the oldest beyond these go


@functools.cache  # both once a process, whatever comes of it
def restore(folder: Path) -> None:
    """Use what is kept of the folder's tokenizer, if anything is."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        tokenizer.restore(folder, files.read(_path(folder), LIMIT).decode())


@functools.cache
def keep(folder: Path) -> None:
    """Keep the folder's tokenizer for later processes, where it can be. Raises CheckpointError."""
    kept = None if _path(folder).exists() else tokenizer.snapshot(folder)
    if kept is None:
        return
    path = _path(folder)
    with contextlib.suppress(OSError):  # loading takes longer, then
        files.make_folder(path.parent)
        files.replace(path, kept.encode())
        newest = sorted(path.parent.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in newest[MOST:]:
            old.unlink()


@functools.cache
def _path(folder: Path) -> Path:
    """Named after all that what transformers makes of the folder depends on."""
    libraries = ("mlx-lm", "transformers", "tokenizers")
    depends = [FORMAT, str(folder.resolve()), stamp(folder), *map(version, libraries)]
    name = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:32]
    return Path(llm.user_dir(), "specdec", "tokenizers", f"{name}.json")
