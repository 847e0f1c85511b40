"""Measured round costs, kept beside the registry in specdec/costs.json.

Measured on first use and then only read, so that a run's draft lengths never depend on the
clock; `llm specdec show NAME --recalibrate` measures anew.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llm

from llm_specdec import checkpoint, files
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.hardware import device
from llm_specdec.engine.session import Session

LIMIT = 16 << 20  # bytes; those of one pairing are some thousand
METHOD = 3  # counts up when `engine.measure` begins to mean something else


def default_path() -> Path:
    return Path(llm.user_dir(), "specdec", "costs.json")


def stored(session: Session, kv_bits: int | None = None, path: Path | None = None) -> Costs | None:
    """What is stored for this session's weights on this machine."""
    found = _read(path or default_path()).get(_key(session, kv_bits))
    if found is None:
        return None
    try:
        return Costs.from_json(found)
    except (KeyError, TypeError, ValueError):
        return None  # not as we write it


def measured(
    session: Session, kv_bits: int | None = None, path: Path | None = None
) -> Costs | None:
    """Measure, which takes a few seconds, and store; None where that failed."""
    try:
        found = session.costs(kv_bits)
    except (RuntimeError, ValueError):  # mlx: out of memory, an operation the device lacks
        return None
    _write(path or default_path(), _key(session, kv_bits), found.as_json())
    return found


def _key(session: Session, kv_bits: int | None) -> str:
    """What the costs depend on: how they are measured, device, mlx, weights, precision."""
    weights = session.weights
    parts = {
        "method": METHOD,
        "device": device.name(),
        "mlx": version("mlx"),
        "target": checkpoint.fingerprint(weights.target),
        "lane": weights.kind,
        "drafter": checkpoint.fingerprint(weights.drafter) if weights.drafter else None,
        "drafter_bits": weights.drafter_bits,
        "kv_bits": kv_bits,
        "longest": session.longest,
    }
    return " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)


def _read(path: Path) -> dict[str, Any]:
    """Everything stored; nothing where the file is missing or not ours."""
    try:
        stored = json.loads(files.read(path, LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _write(path: Path, key: str, costs: dict[str, Any]) -> None:
    """Keep the costs; a folder that cannot be written only means measuring again."""
    try:
        with files.locked(path):
            stored = {**_read(path), key: costs}
            files.replace(path, json.dumps(stored, indent=1).encode("utf-8"))
    except OSError:
        pass
