"""What a round costs on this machine: verify by width, draft by length, near and far.

Measured once per device, mlx version, target, drafter and precision, and kept by the caller;
`Auto` reads only the stored figures, so a run never depends on the clock.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx

Curve = Mapping[int, float]  # width or length → seconds
CONTEXTS = (128, 2048)  # tokens behind the pass that is timed
REPEATS = 3


@dataclass(frozen=True)
class Costs:
    """Seconds of a verify pass by width (tokens read) and of a draft by length, at a short and
    a long context. A source without a draft curve costs nothing to ask."""

    contexts: tuple[int, int]
    verify: tuple[Curve, Curve]
    draft: Mapping[str, tuple[Curve, Curve]]

    def round(self, source: str, length: int, context: int) -> float:
        """Seconds of a round of `length` draft tokens after `context` tokens."""
        return self._at(self.verify, length + 1, context) + self.drafting(source, length, context)

    def drafting(self, source: str, length: int, context: int) -> float:
        curves = self.draft.get(source)
        return self._at(curves, length, context) if curves and length else 0.0

    def _at(self, curves: tuple[Curve, Curve], x: int, context: int) -> float:
        """Linear in context between and beyond the two measured ones."""
        near, far = (interpolated(curve, x) for curve in curves)
        share = max(0.0, (context - self.contexts[0]) / (self.contexts[1] - self.contexts[0]))
        return near + share * max(0.0, far - near)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Costs":
        """Raises KeyError, TypeError or ValueError where `stored` is not what `as_json` gave."""

        def curves(pair: Sequence[Mapping[str, float]]) -> tuple[Curve, Curve]:
            near, far = ({int(x): float(s) for x, s in curve.items()} for curve in pair)
            if not (near and far):
                raise ValueError("an empty curve")
            return near, far

        near, far = stored["contexts"]
        return cls(
            (int(near), int(far)),
            curves(stored["verify"]),
            {source: curves(pair) for source, pair in stored["draft"].items()},
        )


def interpolated(curve: Curve, x: int) -> float:
    """Linear between measured points; beyond the last one its slope goes on."""
    points = sorted(curve)
    if len(points) == 1:
        return curve[points[0]]
    at = min(max(bisect_left(points, x), 1), len(points) - 1)
    low, high = points[at - 1], points[at]
    slope = (curve[high] - curve[low]) / (high - low)
    return max(0.0, curve[low] + slope * (x - low))


def timed(
    passes: Mapping[int, Callable[[], object]],
    repeats: int = REPEATS,
    before: Callable[[], object] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Curve:
    """Least seconds of each pass, taken in turns so that a slow spell hits all alike; what a
    pass returns is evaluated inside its time. The least, because other work on the machine can
    only add to it. `before` runs before each pass, outside its time."""
    seconds: dict[int, list[float]] = {x: [] for x in passes}
    for turn in range(repeats + 1):
        for x, run in passes.items():
            if before:
                mx.eval(before())
            start = clock()
            mx.eval(run())
            if turn:  # the first turn warms up
                seconds[x].append(clock() - start)
    return {x: min(times) for x, times in seconds.items()}
