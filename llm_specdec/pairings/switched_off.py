"""A pairing that is switched off: why, and the command that lets it draft again."""

import shlex

from llm_specdec.pairings.registry import BROKEN, GATE_FIRST, VETOED, Pairing


def why(pairing: Pairing) -> str:
    return pairing.disabled_reason or "switched off by hand"


def mend(pairing: Pairing) -> str:
    """Its gate is asked again, if it was the gate; a hand's decision is undone."""
    by_gate = pairing.disabled_reason.startswith((VETOED, BROKEN, GATE_FIRST))
    return shlex.join(["llm", "specdec", "bench" if by_gate else "enable", pairing.name])
