"""The language model of a folder, without what else its files hold."""

from pathlib import Path

from llm_specdec.checkpoint import Vocabulary
from llm_specdec.drafters import recognise
from llm_specdec.engine import target as targets
from llm_specdec.engine.target import Target


def load(
    folder: Path,
    bits: int | None = None,
    group_size: int = 64,
    vocabulary: Vocabulary | None = None,
) -> Target:
    """As `targets.load`."""
    return targets.load(folder, bits, group_size, recognise.apart(folder), vocabulary)


def check(folder: Path) -> None:
    """As `targets.check`."""
    targets.check(folder, recognise.apart(folder))
