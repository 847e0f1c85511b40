"""A device with a queue, on a clock of its own: what mlx's asynchronous evaluation costs.

The host builds a pass in `build` seconds; the device runs it in `run(width)` seconds, behind
all that was launched before. Evaluating waits for the device.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Pass:
    """A lazy array: what it costs the device, and when it is there once it was launched."""

    seconds: float = 0.0
    there: float | None = None
    size: int = 1

    def __mod__(self, other):
        return self


@dataclass
class Device:
    """Stands in for `mlx.core`, for a target and for its cache."""

    build: float
    run: Callable[[int], float]  # by width
    now: float = 0.0
    busy_until: float = 0.0
    vocab_size: int = 10
    launched: list[Pass] = field(default_factory=list)

    def clock(self):
        return self.now

    # mlx.core

    def arange(self, n):
        return Pass(size=n)

    def argmax(self, array, axis=-1):
        return array

    def async_eval(self, array):
        if array.there is None:
            self.busy_until = max(self.busy_until, self.now) + array.seconds
            array.there = self.busy_until

    def eval(self, *found):
        for array in _flat(found):
            self.async_eval(array)
            self.now = max(self.now, array.there)

    # target and cache

    def forward(self, tokens, cache):
        self.now += self.build
        return Pass(self.run(tokens.size))

    def rollback(self, length):
        pass

    def arrays(self):
        return []


def _flat(found):
    for item in found:
        if isinstance(item, Pass):
            yield item
        elif isinstance(item, list | tuple):
            yield from _flat(item)
