"""What `llm specdec doctor` looks at. Checks yield findings and change nothing.

installation   versions, device, space, logging
registered     the registry, and the settings and verdicts in it
models         a pairing's files, whether they fit each other, and memory
servers        what runs a served pairing
workers        models that are kept in memory
"""

from collections.abc import Callable

from llm_specdec.checks import installation, registered, workers
from llm_specdec.checks.finding import Finding, Findings, examine

__all__ = ["CHECKS", "Finding", "examine"]

# The order of the report: what the later ones rest on comes first.
CHECKS: list[Callable[[], Findings]] = [
    installation.versions,
    installation.backend,
    registered.registry_file,
    registered.pairings,
    registered.shadowed,
    registered.off,
    registered.stale_benches,
    workers.resident,
    installation.disk,
    installation.logging,
]
