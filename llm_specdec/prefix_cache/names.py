"""File names that say which prompts an entry serves, so that a lookup opens few files.

    2150t-9c31…e4d0.safetensors      2,150 tokens; t: can be cut to any length, x: exact

The marks after the dash are 16 bits each of the CRC-32 of a prefix: the first 256 tokens, the
first 512, …, all of them (`lengths`). A name only guides: the tokens inside are compared.
"""

import functools
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from llm_specdec.prefix_cache.folder import ENTRY
from llm_specdec.prefix_cache.matching import covers

MARKS = 16  # in a name at most, but for the one of all tokens
DIGITS = 4  # of a mark

Marks = Callable[[int], str]  # the first n tokens of one sequence → their mark


def name_of(tokens: Sequence[int], exact: bool) -> str:
    mark = marks_of(tokens)
    marks = "".join(mark(n) for n in lengths(len(tokens)))
    return f"{len(tokens)}{'x' if exact else 't'}-{marks}.safetensors"


def marks_of(tokens: Sequence[int]) -> Marks:
    data = np.asarray(tokens, dtype="<u4").tobytes()

    @functools.cache
    def mark(n: int) -> str:
        return f"{zlib.crc32(data[: 4 * n]) & 0xFFFF:04x}"

    return mark


def agreed(file: str, mark: Marks, length: int) -> int:
    """How many tokens the entry in `file` has in common with a sequence of `length` tokens, as
    far as its marks tell. 0 where it is not worth opening: no entry's name, an exact entry that
    the sequence does not begin with as a whole, or less than about an eighth in common."""
    head, _, marks = file.partition("-")
    if not head[:-1].isdecimal():
        return 0
    sure, size = 0, int(head[:-1])
    for place, n in enumerate(lengths(size)):
        if n > length or marks[place * DIGITS :][:DIGITS] != mark(n):
            break
        sure = n
    whole = sure == size
    return sure if ENTRY.fullmatch(file) and (whole or head.endswith("t")) else 0


def covered(file: str, mark: Marks, length: int) -> bool:
    """Whether an entry of these tokens can replace the one in `file`, which can be cut: see
    `covers`."""
    sure = agreed(file, mark, length)
    head, _, _ = file.partition("-")
    return sure > 0 and head.endswith("t") and covers(sure, int(head[:-1]))


def lengths(n: int) -> tuple[int, ...]:
    """The lengths of prefixes of n tokens that a name has marks for: at most MARKS multiples of
    a power of two, and n itself."""
    step = _step(n)
    return (*range(step, n, step), n)


def _step(n: int) -> int:
    """The least power of two that goes into n at most MARKS times."""
    return 1 << max(0, (n - 1).bit_length() - (MARKS - 1).bit_length())
