"""The registry file: pairings and profiles, in TOML that people edit by hand.

pairings   what it describes
reading    text → pairings
lines      the line of a key, for messages
file       `load`, `edit`, `change` and `rename`
"""

from llm_specdec.pairings.registry.file import change, default_path, edit, load, rename
from llm_specdec.pairings.registry.pairings import (
    ADDRESS,
    BROKEN,
    ENGINES,
    GATE_FIRST,
    NAMES_ARE,
    VETOED,
    Pairing,
    Profile,
    Registry,
    Served,
    is_name,
    names_in_use,
    unknown_pairing,
)

__all__ = [
    "ADDRESS",
    "BROKEN",
    "ENGINES",
    "GATE_FIRST",
    "NAMES_ARE",
    "VETOED",
    "Pairing",
    "Profile",
    "Registry",
    "Served",
    "change",
    "default_path",
    "edit",
    "is_name",
    "load",
    "names_in_use",
    "rename",
    "unknown_pairing",
]
