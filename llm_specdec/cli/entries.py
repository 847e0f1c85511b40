"""A pairing's entry in the registry file, as `add` writes it."""

from dataclasses import asdict
from typing import Any

from llm_specdec.cards import stored
from llm_specdec.pairings.registry import Pairing, Served


def put(
    document: Any, pairing: Pairing, draft_tokens: int | str | None, card: dict[str, Any]
) -> None:
    """Write the pairing; of one that is replaced, settings and profiles stay."""
    import tomlkit

    tables = document.setdefault("pairings", tomlkit.table(is_super_table=True))
    old = tables.get(pairing.name, {})
    fields = {
        "target": pairing.target,
        "drafter": pairing.drafter,
        "kind": pairing.kind,
        "drafter_bits": pairing.drafter_bits,
        "drafter_group_size": pairing.drafter_group_size,
        "aliases": pairing.aliases or old.get("aliases"),
        "enabled": None if pairing.enabled else False,
        "disabled_reason": pairing.disabled_reason,
        "added": pairing.added,
        "fingerprints": pairing.fingerprints,
        "head": pairing.head or None,
        "served": _served_table(pairing.served),
    }
    table = tomlkit.table()
    for key, value in fields.items():
        if value not in (None, "", []):
            table[key] = value
    for key in ("settings", "deviations", "profiles"):
        if key in old:
            table[key] = old[key]
    if draft_tokens is not None:
        table.setdefault("settings", tomlkit.table())["draft_tokens"] = draft_tokens
    if card:
        table["card"] = stored.as_toml(card)
    tables[pairing.name] = table


def _served_table(served: Served | None) -> dict[str, Any] | None:
    fields = {} if served is None else asdict(served)
    return {key: value for key, value in fields.items() if value} or None
