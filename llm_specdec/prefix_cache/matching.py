"""How much of an entry a prompt can use."""

from collections.abc import Sequence

import numpy as np


def usable(tokens: Sequence[int], exact: bool, prompt: Sequence[int]) -> int:
    """How many positions of an entry with these `tokens` the prompt can use; 0: none."""
    same = common(tokens, prompt)
    return 0 if exact and same < len(tokens) else max(same - 1, 0)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common beginning."""
    n = min(len(a), len(b))
    differ = np.not_equal(np.asarray(a[:n]), np.asarray(b[:n]))
    first = int(differ.argmax()) if n else 0
    return first if n and differ[first] else n


def covers(same: int, tokens: int) -> bool:
    """Whether an entry that has the first `same` of another's `tokens` tokens can replace it.
    The rest is the last turn or the last question: soon read again, and not worth its bytes."""
    return 8 * same >= 7 * tokens
