"""Plans without a registry."""

from pathlib import Path
from typing import Any

from llm_specdec.backends import Plan
from llm_specdec.receipts import Lane


def planned(target: Path, **changes: Any) -> Plan:
    """Of a target alone, kept for a moment."""
    fields: dict[str, Any] = {
        "model_id": "qwen", "pairing": "qwen", "profile": None, "lane": Lane("none", "off"),
        "target": str(target), "drafter": None, "drafter_bits": None,
        "drafter_group_size": None, "reads": "", "settings": {}, "sources": {},
        "deviations": (), "seed": 1, "keep_alive": 0.2,
    }  # fmt: skip
    return Plan(**fields | changes)
