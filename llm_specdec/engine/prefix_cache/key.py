"""What a state depends on beside the tokens, in readable parts."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from llm_specdec import checkpoint
from llm_specdec.checkpoint import files

FORMAT = "1"  # of what target and drafters keep: raised when a state changes its meaning

Parts = dict[str, str]


def target_parts(folder: Path, chat_template: object) -> Parts:
    """Parts for a target in `folder`. chat_template: as the tokenizer has it, text or texts by
    name. Raises CheckpointError."""
    config = files.read_json(folder / "config.json")
    quantised = config.get("quantization") or config.get("quantization_config")
    return {
        "states": FORMAT,
        "mlx": version("mlx"),
        "mlx-lm": version("mlx-lm"),
        "target": checkpoint.fingerprint(folder),
        "target files": stamp(folder),
        "quantisation": json.dumps(quantised, sort_keys=True),
        "chat template": _digest(json.dumps(chat_template, sort_keys=True, default=str)),
    }


def drafter_parts(
    kind: str, folder: Path | None, bits: int | None, group_size: int | None, reads: str
) -> Parts:
    """Parts for a lane. Raises CheckpointError."""
    parts = {"lane": kind, "drafter reads": reads}
    if folder:
        parts["drafter"] = checkpoint.fingerprint(folder)
        parts["drafter files"] = stamp(folder)
        parts["drafter quantisation"] = f"{bits}/{group_size}" if bits else "as stored"
    return parts


def stamp(folder: Path) -> str:
    """A digest of names, sizes and dates of all files: an adapter that was added, a byte that a
    fingerprint does not sample."""
    found = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            status = path.stat()
            found.append((str(inside), status.st_size, status.st_mtime_ns))
    return _digest(json.dumps(found))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
