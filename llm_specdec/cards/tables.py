"""Settings in tables: names down the side or across the top."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from llm_specdec.cards.blocks import Block, Row
from llm_specdec.cards.figures import NUMBERS, Figure, names, read
from llm_specdec.cards.found import Outcome
from llm_specdec.cards.modes import label_of
from llm_specdec.cards.rules import Context, Verdict, cues, elsewhere, verdict
from llm_specdec.cards.words import words

YES = re.compile(r"\s*(?:yes|✓|✔|✅|x|ja|oui|sí|sim|si|да|evet|是|はい|예)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Cell:
    """What became of one cell. figure: None where a taken cell rejects its setting.
    labels: what may name its mode, nearest first."""

    setting: str
    line: int
    text: str
    outcome: Outcome
    rule: str
    figure: Figure | None = None
    labels: tuple[str, ...] = ()
    required: bool = False


def read_table(block: Block, context: Context) -> Iterator[Cell]:
    """All cells that give a setting's value, taken if the header or a text above recommends."""
    rows = [row for row in block.rows if row.cells]
    if not rows:
        return
    across = [_setting(cell) for cell in rows[0].cells]
    cells = _across(rows, across) if any(across) and not _is_pair(rows[0]) else _down(rows)
    header = " | ".join(rows[0].cells)
    recommended = any(verdict(title)[0] is Verdict.ADVICE for title in rows[0].cells)
    for cell, advised in cells:
        out, rule = _ruled_out(header, cell, context, advised or recommended)
        yield Cell(cell.setting, cell.line, cell.text, out, rule) if out != "taken" else cell


def _ruled_out(header: str, cell: Cell, context: Context, advised: bool) -> tuple[Outcome, str]:
    measured = elsewhere(cues(header) & {"measured", "trained"})
    if context.verdict is Verdict.QUOTED or measured:
        return "set aside", measured or context.rule
    if cell.outcome != "taken":
        return cell.outcome, cell.rule
    if context.verdict is Verdict.ADVICE or advised:
        return "taken", cell.rule
    if context.verdict is Verdict.OUT:
        return "set aside", context.rule
    return "shown", "no word recommends it"


def _is_pair(row: Row) -> bool:
    """A table without a header of its own starts with its first name and value."""
    return (
        len(row.cells) >= 2
        and _setting(row.cells[0]) is not None
        and bool(re.fullmatch(r"[\s\d.,]{0,20}\d[\s\d.,]{0,20}", row.cells[1]))
    )


def _setting(cell: str) -> str | None:
    """The setting that a cell names, and nothing but it."""
    found = {name.setting for name in names(cell)}
    if not found:
        spans = words("topics.system").spans(cell)
        return "system" if any(b - a > 0.7 * len(cell.strip()) for a, b in spans) else None
    return found.pop() if len(found) == 1 and len(cell) < 60 else None


def _across(rows: list[Row], across: list[str | None]) -> Iterator[tuple[Cell, bool]]:
    header = rows[0]
    naming = [
        i for i, name in enumerate(across)
        if name is None and not (i and header.cells[i] in words("headings.other_column"))
    ]  # fmt: skip
    for row in rows[1:]:
        labels = tuple(row.cells[i] for i in naming[:2] if i < len(row.cells))
        for index, setting in enumerate(across[: len(row.cells)]):
            if setting is not None:
                for cell in _cells(setting, index, row, labels, header.cells[index]):
                    yield cell, False


def _down(rows: list[Row]) -> Iterator[tuple[Cell, bool]]:
    """Names down the side. A row may also recommend by its name: "Recommended temperature"."""
    header, body = rows[0], rows if _is_pair(rows[0]) else rows[1:]
    columns = _value_columns(header, body)
    for row in body:
        named = next((i for i, cell in enumerate(row.cells) if _setting(cell)), None)
        if named is None:
            continue
        name = row.cells[named]
        advised = verdict(name)[0] is Verdict.ADVICE
        extra = " ".join(c for i, c in enumerate(row.cells) if i not in columns)
        for index in columns:
            if index == named or index >= len(row.cells):
                continue
            title = header.cells[index] if index < len(header.cells) else ""
            labels = (title,) if len(columns) > 1 or label_of(title).modes else ()
            said = _needed(header, row, index)
            for cell in _cells(str(_setting(name)), index, row, labels, said, name, extra):
                yield cell, advised


def _needed(header: Row, row: Row, value_index: int) -> str:
    """Text of the row's other cells that may call the value essential."""
    said = [cell for i, cell in enumerate(row.cells) if i != value_index]
    for title, cell in zip(header.cells, row.cells, strict=False):
        if title in words("cues.required") and YES.fullmatch(cell):
            said.append("required")
    return " ".join(said)


def _value_columns(header: Row, body: list[Row]) -> list[int]:
    """Columns that hold recommended values: those titled so, else modes, else the only one."""
    width = max((len(row.cells) for row in body), default=0)
    titles = [header.cells[i] if i < len(header.cells) else "" for i in range(width)]
    numeric = [
        i
        for i in range(width)
        if any(_is_value(row, i) for row in body)
        and any(re.search(r"\d", row.cells[i]) for row in body if i < len(row.cells))
    ]
    advised = [i for i in numeric if verdict(titles[i])[0] is Verdict.ADVICE]
    other, value = words("headings.other_column"), words("headings.value_column")
    named = [i for i in numeric if titles[i] in value and titles[i] not in other]
    presets = [i for i in numeric if titles[i] not in other]
    plain = [i for i in numeric if presets and label_of(titles[i]).modes == (None,)]
    return advised or named or sorted({*plain, *presets})


def _is_value(row: Row, index: int) -> bool:
    if index >= len(row.cells) or _setting(row.cells[index]):
        return False
    cell = row.cells[index]
    return bool(re.match(r"[\s\"'~≈≤≥<>]{0,9}[-+]?\.?\d", cell)) or _is_none(cell)


def _is_none(cell: str) -> bool:
    return words("rejection.none").pattern.fullmatch(cell.strip()) is not None


def _cells(
    setting: str, index: int, row: Row, labels: tuple[str, ...], said: str, name: str = "",
    extra: str = "",
) -> Iterator[Cell]:  # fmt: skip
    cell, line, text = row.cells[index], row.line_of(index), " | ".join(row.cells)
    out = elsewhere(frozenset().union(*(cues(label) for label in (*labels, name)))) or (
        "withdrawn" if "withdrawn" in cues(extra) else ""
    )
    if out:
        yield Cell(setting, line, text, "set aside", out)
    elif _is_none(cell):
        yield Cell(setting, line, text, "taken", "rejection", None, labels)
    elif setting != "system" and re.search(r"\d", cell):
        reading = read(f"{setting} {cell}")
        sure = len(reading.figures) == 1 and not reading.unnamed and len(cell) <= 60
        if sure and cell not in words("cues.hazard"):
            needed = f"{said} {cell}"
            required = needed in words("cues.required") and needed not in words("cues.optional")
            figure = reading.figures[0]
            yield Cell(setting, line, text, "taken", "table", figure, labels, required)
        elif NUMBERS.search(cell):
            yield Cell(setting, line, text, "shown", "a cell that is not understood")
