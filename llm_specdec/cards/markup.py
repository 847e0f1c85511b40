"""HTML in a card as Markdown, line by line, so that one parser reads both."""

import re
from collections.abc import Iterator
from typing import NamedTuple


class Source(NamedTuple):
    """A line to parse. number: its line in the card, from 1; cells: those of a row's cells."""

    number: int
    text: str
    cells: tuple[int, ...] = ()


HEADING = re.compile(r"<h([1-6])\b[^<>]{0,200}>(.{0,500}?)</h\1>", re.I)
SUMMARY = re.compile(r"<summary\b[^<>]{0,200}>(.{0,500}?)</summary>", re.I)
ITEM = re.compile(r"<li\b[^<>]{0,200}>", re.I)
BLOCK = re.compile(
    r"</?(?:p|div|li|ul|ol|section|center|blockquote|pre|hr|details|summary|h[1-6])\b[^<>]{0,200}>",
    re.I,
)
CELL = re.compile(r"<t[dh]\b[^<>]{0,200}>", re.I)
FENCE = re.compile(r"\s{0,3}(?:```|~~~)")


def as_markdown(lines: list[Source]) -> Iterator[Source]:
    """Headings, lists, tables and folded sections as Markdown; what is folded becomes a quote."""
    depth, fenced, at = 0, False, 0
    while at < len(lines):
        number, line, _ = lines[at]
        fenced ^= bool(FENCE.match(line))
        if fenced or "<" not in line:
            yield Source(number, "> " * depth + line)
            at += 1
            continue
        end = _table_end(lines, at)
        if end:
            yield from (row._replace(text="> " * depth + row.text) for row in _table(lines[at:end]))
            at = end
            continue
        lowered = line.lower()
        opened, closed = lowered.count("<details"), lowered.count("</details")
        for text in _lines(line):
            yield Source(number, "> " * depth + text)
        depth = min(max(0, depth + opened - closed), 5)
        if opened or closed:
            yield Source(number, "> " * depth)
        at += 1


def _lines(line: str) -> list[str]:
    line = HEADING.sub(lambda m: f"\n\n{'#' * int(m[1])} {m[2]}\n\n", line)
    line = SUMMARY.sub(r"\n\n**\1**\n\n", line)
    line = BLOCK.sub("\n\n", ITEM.sub("\n\n- ", line))
    return [
        part if part.startswith(("#", "- ", "**")) else part.strip("\n")
        for part in line.split("\n")
    ]


def _table_end(lines: list[Source], at: int) -> int:
    """Where the table that starts on a line ends; 0 where none starts, or it never ends."""
    if "<table" not in lines[at].text.lower():
        return 0
    for end in range(at, min(at + 500, len(lines))):
        if "</table" in lines[end].text.lower():
            return end + 1
    return 0


def _table(lines: list[Source]) -> Iterator[Source]:
    rows: list[list[tuple[int, str]]] = []
    for number, line, _ in lines:
        for index, part in enumerate(re.split(r"<tr\b[^<>]{0,200}>", line, flags=re.I)):
            if index:
                rows.append([])
            for place, cell in enumerate(CELL.split(part)):
                if rows and place:
                    rows[-1].append((number, cell.strip()))
                elif rows and rows[-1] and cell.strip():
                    start, begun = rows[-1][-1]
                    rows[-1][-1] = (start, f"{begun} {cell.strip()}")
    rows = [row for row in rows if row]
    yield Source(lines[0].number, "")
    for index, row in enumerate(rows):
        cells = " | ".join(re.sub(r"</t.*|\|", " ", cell) for _, cell in row)
        yield Source(row[0][0], f"| {cells} |", tuple(number for number, _ in row))
        if index == 0:
            yield Source(row[0][0], "|" + "---|" * len(row))
    yield Source(lines[-1].number, "")
