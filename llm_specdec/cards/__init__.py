"""What model cards say about sampling: read once, kept with its source.

`found`: the data classes. `merge`: contradictions, and the values that may be taken.
"""

from llm_specdec.cards.found import (
    GENERATION_CONFIG,
    README,
    SETTINGS,
    Candidate,
    Card,
    Disagreement,
    Finding,
    Forbidden,
    Range,
    Required,
    Unreadable,
)
from llm_specdec.cards.front import base_models

__all__ = [
    "GENERATION_CONFIG",
    "README",
    "SETTINGS",
    "Candidate",
    "Card",
    "Disagreement",
    "Finding",
    "Forbidden",
    "Range",
    "Required",
    "Unreadable",
    "base_models",
]
