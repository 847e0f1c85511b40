"""What is said once a day, whatever asks for it: the days are kept beside the registry."""

import contextlib
import json
from datetime import date
from pathlib import Path

from llm_specdec import files
from llm_specdec.console.notices import warn
from llm_specdec.pairings import registry, switched_off
from llm_specdec.pairings.registry import Pairing

LIMIT = 1_000_000  # bytes; a larger file is not ours


def switched_off_today(pairing: Pairing) -> None:
    """Say that the pairing is off, and why, if nobody was told today."""
    path = registry.default_path().with_name("said-off.json")
    today, said = date.today().isoformat(), _read(path)
    if said.get(pairing.name) == today:
        return
    warn(
        f"{pairing.name} is switched off, its target answers alone: {switched_off.why(pairing)}; "
        f"{switched_off.mend(pairing)} may change that (said once a day)"
    )
    current = {name: day for name, day in said.items() if day == today}
    with contextlib.suppress(OSError):
        files.replace(path, json.dumps({**current, pairing.name: today}).encode())


def _read(path: Path) -> dict[str, str]:
    """Names → the days they were said; nothing where the file is missing or not as we write it."""
    try:
        found = json.loads(files.read(path, LIMIT))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
