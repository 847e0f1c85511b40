"""The command that adds a pairing anew. Settings, profiles and aliases stay by themselves."""

import shlex
from collections.abc import Mapping
from typing import Any

from llm_specdec.drafters.table import KINDS, words
from llm_specdec.pairings.registry import Pairing


def command(pairing: Pairing, **changes: str) -> str:
    """changes: options that are to be others than they were; "" leaves one out."""
    return _add(pairing, {**(_served(pairing) if pairing.served else _local(pairing)), **changes})


def with_drafter(pairing: Pairing, drafter: str) -> str:
    """With another drafter, of which nothing else is known."""
    return _add(pairing, {"target": pairing.target, "drafter": drafter})


def _add(pairing: Pairing, options: Mapping[str, Any]) -> str:
    said = ["llm", "specdec", "add", pairing.name, "--force"]
    for name, value in options.items():
        if value:
            said += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(said)


def _served(pairing: Pairing) -> dict[str, Any]:
    served = pairing.served
    assert served
    return {
        "served": served.url,
        "engine": served.engine,
        "target": pairing.target,
        "key": served.key,
        "insecure": served.insecure,
        "card": pairing.card.get("target"),
        "tokenizer": served.tokenizer,
    }


def _local(pairing: Pairing) -> dict[str, Any]:
    lent = pairing.drafter not in words() and KINDS[pairing.kind].in_target
    return {
        "target": pairing.target,
        "head-from" if lent else "drafter": pairing.drafter,
        "drafter-bits": pairing.drafter_bits,
        "drafter-group-size": pairing.drafter_group_size,
    }
