"""Measured round costs, kept beside the registry in specdec/costs.json.

A run only reads them, so that its draft lengths never depend on the clock. They are measured
after answers, a part at a time, and a second time after later ones: what was disturbed once must
not stay. Where the two disagree a third measurement decides. Each run's rounds are held against
the costs, too; if several runs in a row disagree, costs are measured again.
`llm specdec show NAME --recalibrate` measures anew at once.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llm

from llm_specdec import checkpoint, files
from llm_specdec.engine.costs import Costs, Curve, middle, spread
from llm_specdec.engine.hardware import device
from llm_specdec.engine.session import Session

LIMIT = 16 << 20  # bytes; those of one pairing are some thousand
METHOD = 5  # counts up when `engine.measure` begins to mean something else
TAKES = 3  # measurements that are kept: the first, and the newest two
AGREED = 1.05  # `spread` of two measurements that need no third
DISTURBED = 1.15  # `spread` of a run's passes beside costs that may be wrong
PATIENCE = 3  # runs in a row that must disagree; twice as many after each time


@dataclass(frozen=True)
class Record:
    """What is stored of one pairing. takes: whole measurements. begun: parts of the next one.
    off: runs in a row whose passes took other times than the costs say. stale: so many did that
    the next measurement takes the place of all but the first."""

    takes: tuple[Costs, ...] = ()
    begun: Mapping[str, Curve] = field(default_factory=dict)
    off: int = 0
    patience: int = PATIENCE
    stale: bool = False

    @property
    def wanting(self) -> bool:
        """Whether there should be one more measurement."""
        if self.stale or len(self.takes) < 2:
            return True
        one, other = self.takes[-2:]
        return len(self.takes) < TAKES and spread(one.rounds(), other.rounds()) > AGREED

    def with_take(self, take: Costs) -> "Record":
        kept = self.takes[:1] if self.stale else self.takes[: TAKES - 1]
        return Record((*kept, take), patience=self.patience)

    def with_run(self, agrees: bool) -> "Record":
        off = 0 if agrees else self.off + 1
        if off < self.patience:
            return replace(self, off=off)
        return replace(self, off=0, patience=2 * self.patience, stale=True)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Any) -> "Record":
        """An empty one where `stored` is not what `as_json` gave."""
        try:
            return cls(
                tuple(Costs.from_json(take) for take in stored["takes"]),
                {
                    str(name): {int(x): float(seconds) for x, seconds in curve.items()}
                    for name, curve in stored["begun"].items()
                },
                int(stored["off"]),
                int(stored["patience"]),
                bool(stored["stale"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return cls()


def default_path() -> Path:
    return Path(llm.user_dir(), "specdec", "costs.json")


def stored(
    session: Session, kv_bits: int | None = None, path: Path | None = None, first: bool = False
) -> Costs | None:
    """What is stored for this session's weights on this machine. first: as it was measured first,
    which later measurements do not change."""
    takes = _record(path or default_path(), _key(session, kv_bits)).takes
    if not takes:
        return None
    try:
        return takes[0] if first else middle(takes)
    except KeyError:
        return None  # not as we write it


def wanting(session: Session, kv_bits: int | None = None, path: Path | None = None) -> bool:
    """Whether costs should be measured, for the first time or once more."""
    return _record(path or default_path(), _key(session, kv_bits)).wanting


def observe(
    session: Session,
    costs: Costs,
    passes: Mapping[int, float],
    context: int,
    kv_bits: int | None = None,
    path: Path | None = None,
) -> None:
    """Hold a run's verify passes, seconds by width, against the `costs` that it went by. A
    machine that is slow as a whole is no disagreement, as that changes no choice."""
    foretold = {width: costs.verifying(width, context) for width in passes}
    if len(passes) < 2 or not all(foretold.values()):
        return
    agrees = spread(passes, foretold) <= DISTURBED
    path, key = path or default_path(), _key(session, kv_bits)
    if not agrees or _record(path, key).off:
        _update(path, key, lambda record: record.with_run(agrees))


def measured(
    session: Session,
    kv_bits: int | None = None,
    path: Path | None = None,
    anew: bool = False,
    seconds: float = math.inf,
    cancelled: Callable[[], bool] = lambda: False,
) -> Costs | None:
    """Measure, which takes a few seconds, and store. anew: all that was measured before is
    forgotten.

    seconds: begin no further part after so long; the next call goes on where this one stopped.
    None where parts are missing: it failed, took too long or was cancelled.
    """
    path, key = path or default_path(), _key(session, kv_bits)
    parts = {} if anew else dict(_record(path, key).begun)
    start = time.monotonic()
    try:
        with device.wired():
            for name, curve in session.measure(kv_bits, parts):
                parts[name] = curve
                if cancelled() or time.monotonic() - start > seconds:
                    break
        found = session.costs(parts)
    except (RuntimeError, ValueError):  # mlx: out of memory, an operation the device lacks
        return None

    def change(record: Record) -> Record:
        record = Record() if anew else record
        return replace(record, begun=parts) if found is None else record.with_take(found)

    _update(path, key, change)
    return found


def _key(session: Session, kv_bits: int | None) -> str:
    """What the costs depend on: how they are measured, device and its power mode, mlx, mlx-lm,
    weights, precision."""
    weights = session.weights
    parts = {
        "method": METHOD,
        "device": device.name(),
        "power": device.power_mode(),
        "mlx": version("mlx"),
        "mlx-lm": version("mlx-lm"),
        "target": checkpoint.fingerprint(weights.target),
        "lane": weights.kind,
        "drafter": checkpoint.fingerprint(weights.drafter) if weights.drafter else None,
        "drafter_bits": weights.drafter_bits,
        "kv_bits": kv_bits,
        "longest": session.longest,
    }
    return " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)


def _read(path: Path) -> dict[str, Any]:
    """Everything stored; nothing where the file is missing or not ours."""
    try:
        stored = json.loads(files.read(path, LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _record(path: Path, key: str) -> Record:
    return Record.from_json(_read(path).get(key))


def _update(path: Path, key: str, change: Callable[[Record], Record]) -> None:
    """Keep what has become of a record; a folder that cannot be written only means measuring
    again."""
    try:
        with files.locked(path):
            stored = _read(path)
            stored[key] = change(Record.from_json(stored.get(key))).as_json()
            files.replace(path, json.dumps(stored, indent=1).encode("utf-8"))
    except OSError:
        pass
