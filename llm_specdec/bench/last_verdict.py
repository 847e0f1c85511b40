"""What a pairing's last bench said, and whether it still holds."""

from typing import Any, NamedTuple

from llm_specdec.bench import machine, store
from llm_specdec.bench.command import models
from llm_specdec.errors import SpecdecError
from llm_specdec.pairings.registry import Pairing, Registry


class Standing(NamedTuple):
    """The last cold bench against the target alone that decided something. stale: what changed
    since, in words."""

    bench: int
    date: str
    status: str
    gate_pct: float
    stale: list[str]

    def line(self) -> str:
        return f"the bench of {self.date} is stale: {', '.join(self.stale)}"


def standings(known: Registry) -> dict[str, Standing]:
    """pairing → its standing; pairings that no bench has decided on are not in it."""
    if not store.default_path().exists():
        return {}
    last = {
        bench["pairing"]: bench
        for bench in store.Store().benches()
        if (bench["verdict"] or {}).get("status") in ("adopted", "vetoed", "broken")
        and bench["against"] == "none"
    }
    here = {"machine": machine.machine(), "versions": machine.versions()} if last else {}
    return {
        name: _standing(last[name], {**here, "models": _models(pairing)})
        for name, pairing in known.pairings.items()
        if name in last
    }


def _standing(bench: dict[str, Any], now: dict[str, Any]) -> Standing:
    return Standing(
        bench=bench["id"],
        date=bench["datetime_utc"][:10],
        status=bench["verdict"]["status"],
        gate_pct=bench["gate_pct"],
        stale=store.stale(bench["conditions"], now),
    )


def _models(pairing: Pairing) -> dict[str, Any]:
    """As they are now; none where files are gone, which doctor reports by itself."""
    try:
        return models(pairing)
    except SpecdecError:
        return {}
