"""What a state depends on beside the tokens, in readable parts."""

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from llm_specdec import checkpoint
from llm_specdec.checkpoint import files

if TYPE_CHECKING:
    from llm_specdec.engine.session import Session, Weights

FORMAT = "1"  # of what target and drafters keep: raised when a state changes its meaning

Parts = dict[str, str]


@dataclass(frozen=True)
class Key:
    """Everything but the tokens that a state depends on."""

    parts: Mapping[str, str]

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the parts, in any order."""
        return _digest(json.dumps(dict(self.parts), sort_keys=True))


def key_of(session: "Session", kv_bits: int | None) -> Key:
    """What states of this session depend on. Raises CheckpointError."""
    template = json.dumps(session.tokenizer.chat_template, sort_keys=True, default=str)
    return Key({**_parts_of(session.weights, template), "kv bits": str(kv_bits)})


@functools.cache  # the weights are in memory by now, whatever becomes of their files
def _parts_of(weights: "Weights", template: str) -> Parts:
    w = weights
    return {
        **target_parts(w.target, template),
        **drafter_parts(w.kind, w.drafter, w.drafter_bits, w.drafter_group_size, w.reads),
    }


def target_parts(folder: Path, template: str) -> Parts:
    """Parts for a target in `folder`. template: the tokenizer's chat template, which may
    be several by name, as JSON. Raises CheckpointError."""
    config = files.read_json(folder / "config.json")
    quantised = config.get("quantization") or config.get("quantization_config")
    return {
        "states": FORMAT,
        "mlx": version("mlx"),
        "mlx-lm": version("mlx-lm"),
        "target": checkpoint.fingerprint(folder),
        "target files": stamp(folder),
        "quantisation": json.dumps(quantised, sort_keys=True),
        "chat template": _digest(template),
    }


def drafter_parts(
    kind: str, folder: Path | None, bits: int | None, group_size: int | None, reads: str
) -> Parts:
    """Parts for a lane. Raises CheckpointError."""
    parts = {"lane": kind, "drafter reads": reads}
    if folder:
        parts["drafter"] = checkpoint.fingerprint(folder)
        parts["drafter files"] = stamp(folder)
    if folder or bits:
        parts["drafter quantisation"] = f"{bits}/{group_size}" if bits else "as stored"
    return parts


def stamp(folder: Path) -> str:
    """A digest of names, sizes and dates of all files: it notices an adapter that was added, and
    a changed byte that a fingerprint does not sample."""
    stamps = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            status = path.stat()
            stamps.append((str(inside), status.st_size, status.st_mtime_ns))
    return _digest(json.dumps(stamps))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
