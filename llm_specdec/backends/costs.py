"""Measured round costs, kept beside the registry in specdec/costs.json.

Measured on first use and then only read, so that a run's draft lengths never depend on the
clock; `llm specdec show NAME --recalibrate` measures anew.
"""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_specdec import checkpoint, files

if TYPE_CHECKING:
    from llm_specdec.engine.costs import Costs
    from llm_specdec.engine.session import Session


LIMIT = 16 << 20  # bytes; those of one pairing are some thousand
METHOD = 3  # counts up when `engine.measure` begins to mean something else


def default_path() -> Path:
    import llm

    return Path(llm.user_dir(), "specdec", "costs.json")


def costs_for(
    loaded: "Session",
    kv_bits: int | None = None,
    path: Path | None = None,
    anew: bool = False,
    measure: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> "Costs | None":
    """The stored costs of this session's weights on this machine, measured where there are
    none, which takes a few seconds; None where measuring failed or is not asked for."""
    from llm_specdec.engine.costs import Costs

    path = path or default_path()
    key = _key(loaded, kv_bits)
    stored = _read(path).get(key)
    if stored is not None and not anew:
        try:
            return Costs.from_json(stored)
        except (KeyError, TypeError, ValueError):
            pass  # not as we write it: measure again
    if not measure:
        return None
    tell("measuring what drafts cost on this machine, once …")
    try:
        measured = loaded.costs(kv_bits)
    except (RuntimeError, ValueError):  # mlx: out of memory, an operation the device lacks
        return None
    _write(path, key, measured.as_json())
    return measured


def _key(loaded: "Session", kv_bits: int | None) -> str:
    """What the costs depend on: how they are measured, device, mlx, weights, precision."""
    from llm_specdec.engine.hardware import device

    weights = loaded.weights
    parts = {
        "method": METHOD,
        "device": device.name(),
        "mlx": version("mlx"),
        "target": checkpoint.fingerprint(weights.target),
        "lane": weights.kind,
        "drafter": checkpoint.fingerprint(weights.drafter) if weights.drafter else None,
        "drafter_bits": weights.drafter_bits,
        "kv_bits": kv_bits,
        "longest": loaded.longest,
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
