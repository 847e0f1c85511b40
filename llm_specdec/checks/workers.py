"""Models that are kept in memory: whether their workers answer, and as what."""

from llm_specdec.backends.resident import control
from llm_specdec.backends.resident.control import Held
from llm_specdec.checks.finding import Finding, Findings
from llm_specdec.console.sizes import gigabytes


def resident() -> Findings:
    """Raises ResourceError where the folder of sockets is not the user's alone."""
    for held in control.workers():
        yield _one(held)


def _one(held: Held) -> Finding:
    if held.stuck:
        return Finding(
            "broken",
            f"a resident worker does not answer at {held.place.socket}"
            + (f" (process {held.pid})" if held.pid else ""),
            f"what it holds in memory is lost to others; its log is {held.place.log}",
            "llm specdec stop",
        )
    names = ", ".join(held.status["pairings"]) or "no pairing yet"
    memory = gigabytes(held.status["bytes"])
    if held.outdated:
        return Finding(
            "warning",
            f"the resident worker of {names} is of an older version and holds {memory}",
            "the next prompt replaces it; until then its memory is not free",
            "llm specdec stop",
        )
    return Finding("ok", f"in memory: {names}, {memory}")
