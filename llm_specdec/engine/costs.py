"""What a round costs on this machine: verify by width, draft by length, at a few contexts.

Measured for each device, mlx version, target, drafter and precision, and kept by the caller;
`Auto` reads only the stored figures, so a run never depends on the clock.
"""

import itertools
import statistics
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx

Curve = Mapping[int, float]  # width or length → seconds
CONTEXTS = (128, 2048)  # tokens behind the pass that is timed
FARTHEST = 8192  # the same, on a GPU: its kernels change between here and there
REPEATS = 3


@dataclass(frozen=True)
class Costs:
    """Seconds of a verify pass by width (tokens read) and of a draft by length, at two or more
    contexts, the shortest first. A source without a draft curve costs nothing to ask."""

    contexts: tuple[int, ...]
    verify: tuple[Curve, ...]
    draft: Mapping[str, tuple[Curve, ...]]

    def round(self, source: str, length: int, context: int) -> float:
        """Seconds of a round of `length` draft tokens after `context` tokens."""
        return self.verifying(length + 1, context) + self.drafting(source, length, context)

    def verifying(self, width: int, context: int) -> float:
        return self._at(self.verify, width, context)

    def drafting(self, source: str, length: int, context: int) -> float:
        curves = self.draft.get(source)
        return self._at(curves, length, context) if curves and length else 0.0

    def rounds(self) -> dict[tuple[int, int], float]:
        """Seconds of a round by context and draft tokens, for every pass that was measured."""
        source = next(iter(self.draft), "")
        return {
            (context, width - 1): self.round(source, width - 1, context)
            for context, curve in zip(self.contexts, self.verify, strict=True)
            for width in curve
        }

    def _at(self, curves: tuple[Curve, ...], x: int, context: int) -> float:
        """Linear in context between and beyond those measured, and never falling with it."""
        seconds = [*itertools.accumulate((interpolated(curve, x) for curve in curves), max)]
        at = min(max(bisect_right(self.contexts, context), 1), len(seconds) - 1)
        low, high = self.contexts[at - 1], self.contexts[at]
        share = max(0.0, (context - low) / (high - low))
        return seconds[at - 1] + share * (seconds[at] - seconds[at - 1])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Costs":
        """Raises KeyError, TypeError or ValueError where `stored` is not what `as_json` gave."""

        contexts = tuple(int(context) for context in stored["contexts"])

        def curves(several: Sequence[Mapping[str, float]]) -> tuple[Curve, ...]:
            found = tuple({int(x): float(s) for x, s in curve.items()} for curve in several)
            if len(found) != len(contexts) or len(found) < 2 or not all(found):
                raise ValueError("not a curve for each context")
            return found

        return cls(
            contexts,
            curves(stored["verify"]),
            {source: curves(several) for source, several in stored["draft"].items()},
        )


def middle(takes: Sequence[Costs]) -> Costs:
    """Of several measurements the middle one, of two the lesser, point by point: what disturbed
    one of them is left out. Those with other contexts than the last do not count."""
    last = takes[-1]
    alike = [take for take in takes if take.contexts == last.contexts]

    def curves(several: Sequence[tuple[Curve, ...]]) -> tuple[Curve, ...]:
        return tuple(
            {x: statistics.median_low(curve[x] for curve in taken) for x in taken[-1]}
            for taken in zip(*several, strict=True)
        )

    return Costs(
        last.contexts,
        curves([take.verify for take in alike]),
        {source: curves([take.draft[source] for take in alike]) for source in last.draft},
    )


def spread(one: Mapping[Any, float], other: Mapping[Any, float]) -> float:
    """How far two sets of times differ, the speed of the machine apart: the largest ratio of
    two times over the least; 1 where they agree, or fewer than two can be compared."""
    ratios = [one[x] / other[x] for x in one if x in other]
    return max(ratios) / min(ratios) if ratios else 1.0


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
