"""Models that are kept in memory: whether their workers answer, and as what."""

import shlex
from pathlib import Path

from llm_specdec.backends.resident import control
from llm_specdec.backends.resident.control import Held
from llm_specdec.checks.finding import Finding, Findings
from llm_specdec.console.sizes import gigabytes


def resident() -> Findings:
    """Raises ResourceError where the folder of sockets is not the user's alone."""
    for held in control.workers():
        yield _one(held)
        if _is_open_to_others(path := held.place.socket):
            yield Finding(
                "warning",
                f"{path} has the permissions of a file for others",
                "only its folder keeps them out",
                f"chmod 600 {shlex.quote(str(path))}",
            )


def _is_open_to_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:  # its worker has just ended
        return False


def _one(held: Held) -> Finding:
    if held.stuck:
        return Finding(
            "broken",
            f"a resident worker does not answer at {held.place.socket}"
            + (f" (process {held.pid})" if held.pid else ""),
            f"it holds {gigabytes(held.nbytes)}; its log is {held.place.log}",
            "llm specdec stop",
        )
    names = ", ".join(held.status["pairings"]) or "no pairing yet"
    memory = gigabytes(held.nbytes)
    if held.outdated:
        return Finding(
            "warning",
            f"the resident worker of {names} is of an older version and holds {memory}",
            "the next prompt replaces it; until then its memory is not free",
            "llm specdec stop",
        )
    return Finding("ok", f"in memory: {names}, {memory}")
