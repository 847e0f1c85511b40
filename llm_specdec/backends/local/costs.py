"""Measured round costs, kept beside the registry in specdec/costs.json.

Measured after the first answer and then only read, so that a run's draft lengths never depend
on the clock; `llm specdec show NAME --recalibrate` measures anew.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import llm

from llm_specdec import checkpoint, files
from llm_specdec.engine.costs import Costs, Curve
from llm_specdec.engine.hardware import device
from llm_specdec.engine.session import Session

LIMIT = 16 << 20  # bytes; those of one pairing are some thousand
METHOD = 4  # counts up when `engine.measure` begins to mean something else


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
    session: Session,
    kv_bits: int | None = None,
    path: Path | None = None,
    anew: bool = False,
    seconds: float = math.inf,
    cancelled: Callable[[], bool] = lambda: False,
) -> Costs | None:
    """Measure, which takes a few seconds, and store.

    seconds: begin no further part after so long; the next call goes on where this one stopped.
    None where parts are missing: it failed, took too long or was cancelled.
    """
    path, key = path or default_path(), _key(session, kv_bits)
    parts = {} if anew else _parts(_read(path).get(f"{key} parts"))
    start = time.monotonic()
    try:
        with device.wired():
            for name, curve in session.measure(kv_bits, parts):
                parts[name] = curve
                if cancelled() or time.monotonic() - start > seconds:
                    break
        found = session.costs(parts)
    except (RuntimeError, ValueError):  # mlx: out of memory, an operation the device lacks
        return None
    _write(path, key, found, parts)
    return found


def _parts(stored: object) -> dict[str, Curve]:
    """What an earlier call measured; nothing where it is not as we write it."""
    try:
        return {
            str(name): {int(x): float(seconds) for x, seconds in curve.items()}
            for name, curve in cast(dict[str, Any], stored or {}).items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def _key(session: Session, kv_bits: int | None) -> str:
    """What the costs depend on: how they are measured, device and its power mode, mlx, mlx-lm,
    weights, precision."""
    weights = session.weights
    parts = {
        "method": METHOD,
        "device": device.name(),
        "power": device.power_mode(),
        "mlx": version("mlx"),
        "mlx-lm": version("mlx-lm"),
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


def _write(path: Path, key: str, found: Costs | None, parts: Mapping[str, Curve]) -> None:
    """Keep the costs, or the parts of them; a folder that cannot be written only means measuring
    again."""
    try:
        with files.locked(path):
            stored = _read(path)
            stored.pop(f"{key} parts", None)
            if found:
                stored[key] = found.as_json()
            elif parts:
                stored[f"{key} parts"] = parts
            files.replace(path, json.dumps(stored, indent=1).encode("utf-8"))
    except OSError:
        pass
