"""Model cards with what is to be found in them: those of fixtures/cases and our own."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HANDED, OWN = ROOT / "fixtures/cases/cards.jsonl", ROOT / "tests/cards/cards.jsonl"


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


CASES = load(HANDED) + load(OWN)
