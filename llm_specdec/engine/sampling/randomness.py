"""Random keys that depend on the seed and the position alone.

A draw at a position gets the same numbers whatever was drafted before it, so a run is
repeated exactly by its seed, streamed or not, and no global state is touched.
"""

from enum import IntEnum

import mlx.core as mx

_MASK = (1 << 64) - 1


class Purpose(IntEnum):
    DRAFT = 1  # a drafter draws a token
    ACCEPT = 2  # the coin that accepts draft tokens
    TARGET = 3  # the target's own token: bonus, residual, plain


def key(seed: int, position: int, purpose: Purpose) -> mx.array:
    """The key for the token at `position` (0-based in prompt + output)."""
    mixed = _mix(_mix(_mix(seed & _MASK) ^ position) ^ purpose)
    return mx.random.key(mixed)


def _mix(value: int) -> int:
    """SplitMix64's finaliser (Steele, Lea, Flood, 2014): neighbours come out unrelated."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
