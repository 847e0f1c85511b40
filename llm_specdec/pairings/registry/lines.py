"""Where a key stands in a TOML text, for messages that name the line."""

import functools
import re
import tomllib
from typing import Any


def line_of(text: str, key: tuple[str, ...]) -> int | None:
    """The line where `key` stands, else that of the nearest table above it."""
    lines = _lines(text)
    for length in range(len(key), 0, -1):
        if key[:length] in lines:
            return lines[key[:length]]
    return None


@functools.lru_cache(maxsize=2)
def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Every key and table header → its line. Reads a line at a time, so that a key inside an
    inline table has the line of that table."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    quoted = False  # inside a text of several lines
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        inside = quoted
        if (line.count('"""') + line.count("'''")) % 2:
            quoted = not quoted
        if inside:
            continue
        if re.match(r"\s*\[", line):
            key = table = _key(line) or table
        elif match := re.match(r"\s*([^#=]+?)\s*=", line):
            key = (*table, *_key(f"{match[1]} = 0"))
        else:
            continue
        for length in range(1, len(key) + 1):
            lines.setdefault(key[:length], number)
    return lines


def _key(line: str) -> tuple[str, ...]:
    """The dotted key of a header or a key line, as TOML quotes it."""
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    key = []
    while found and isinstance(found, dict | list):
        if isinstance(found, dict):
            key.append(next(iter(found)))
            found = found[key[-1]]
        else:
            found = found[0]
    return tuple(key)
