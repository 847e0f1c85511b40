"""Settings in tables: names down the side or across the top."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from llm_specdec.cards.blocks import Block, Row
from llm_specdec.cards.figures import Figure, figures, names
from llm_specdec.cards.judge import RULES_OUT, Verdict, cues, verdict
from llm_specdec.cards.lexicon import NOT_REQUIRED, REQUIRES, SYSTEM
from llm_specdec.cards.modes import label_of

VALUE_HEADER = re.compile(
    r"\b(?:values?|settings?|recommend\w*|suggest\w*|ours?|use|Wert\w*|valeurs?|valor\w*|valore|waarde|değer\w*|значени\w*|wartość|hodnota)\b|值|値|推荐|推奨|建议|값|권장",
    re.IGNORECASE,
)
OTHER_HEADER = re.compile(
    r"\b(?:defaults?|before|old|previous\w*|base|parent|original|tested|tried|range tried|flags?|type|why|notes?|comments?|description|meaning|remarks?|effect|purpose|min|max|minimum|maximum|limits?|allowed|name|standard|vorher|alt|ancien\w*|anterior\w*)\b|默认|说明|备注|原|旧|説明|既定",
    re.IGNORECASE,
)
DEFAULT_HEADER = re.compile(r"\s*(?:defaults?|standard|默认|既定)\s*", re.IGNORECASE)
FORBIDS = re.compile(
    r"^\s*(?:never|off|disabled|do not use|don't use|not used|forbidden|avoid|aus|nie|non|jamais|nunca|mai|нет|выкл\w*|kapalı|关闭|禁用|不使用|不要使用|使用しない|オフ|사용 안 함)\s*$",
    re.IGNORECASE,
)
NONE = re.compile(
    r"^\s*(?:none|no|off|never|empty|leave empty|do not use|forbidden|keiner?|aucune?|ninguno|nenhum|nessuno|yok|нет|无|不使用|なし|없음)\s*$",
    re.I,
)
YES = re.compile(r"^\s*(?:yes|✓|✔|✅|x|ja|oui|sí|sim|si|да|evet|是|はい|예)\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Cell:
    """One figure (or rejection) in a table. labels: what may name its mode, nearest first."""

    figure: Figure | None
    forbidden: str | None
    line: int
    labels: tuple[str, ...]
    required: bool
    text: str


def read_table(block: Block, context: Verdict) -> Iterator[Cell]:
    """Recommended figures of a table, if its header or what stands above recommends them."""
    rows = [row for row in block.rows if row.cells]
    if not rows or context is Verdict.QUOTED:
        return
    header, body = rows[0], rows[1:]
    across = [_setting(cell) for cell in header.cells]
    if any(across) and not _is_pair(header):
        if _is_measured(header) or (context is not Verdict.ADVICE and not _advises(header)):
            return
        yield from _across(header, across, body)
        return
    if not _is_measured(header):
        advised = context is Verdict.ADVICE or _advises(header)
        yield from _down(header, rows if _is_pair(header) else body, advised)


def _is_pair(row: Row) -> bool:
    """A table without a header of its own starts with its first name and value."""
    return (
        len(row.cells) >= 2
        and _setting(row.cells[0]) is not None
        and bool(re.fullmatch(r"[\s\d.,]*\d[\s\d.,]*", row.cells[1]))
    )


def _advises(header: Row) -> bool:
    return any(verdict(cell) is Verdict.ADVICE for cell in header.cells)


def _is_measured(header: Row) -> bool:
    """A header with scores, benchmarks or training words: no table of advice."""
    kinds = {cue.kind for cell in header.cells for cue in cues(cell)}
    return bool(kinds & {"measured", "trained"})


def _setting(cell: str) -> str | None:
    """The setting that a cell names, and nothing but it."""
    found = names(cell)
    if not found:
        return "system" if _only(cell, SYSTEM.spans(cell)) else None
    settings = {name.setting for name in found}
    return found[0].setting if len(settings) == 1 and len(cell) < 60 else None


def _only(cell: str, spans: list[tuple[int, int]]) -> bool:
    return any(end - start > 0.7 * len(cell.strip()) for start, end in spans)


def _across(header: Row, across: list[str | None], body: list[Row]) -> Iterator[Cell]:
    label_columns = [i for i, name in enumerate(across) if name is None and not _is_note(header, i)]
    for row in body:
        cells = row.cells
        labels = tuple(cells[i] for i in label_columns[:2] if i < len(cells))
        if _is_ruled_out(labels):
            continue
        for index, setting in enumerate(across):
            if setting is not None and index < len(cells):
                yield from _cell(setting, index, row, labels, header.cells[index])


def _is_note(header: Row, index: int) -> bool:
    return bool(index and OTHER_HEADER.search(header.cells[index]))


def _is_ruled_out(labels: tuple[str, ...]) -> bool:
    return any({cue.kind for cue in cues(label)} & RULES_OUT for label in labels)


def _down(header: Row, body: list[Row], advised: bool) -> Iterator[Cell]:
    """Names down the side. A row may also recommend by its name: "Recommended temperature"."""
    width = max(len(row.cells) for row in body) if body else 0
    columns = _value_columns(header, body, width)
    for row in body:
        setting_at = next((i for i, c in enumerate(row.cells) if _setting(c)), None)
        if setting_at is None or _is_ruled_out((row.cells[setting_at],)):
            continue
        if not advised and verdict(row.cells[setting_at]) is not Verdict.ADVICE:
            continue
        setting = str(_setting(row.cells[setting_at]))
        extra = " ".join(c for i, c in enumerate(row.cells) if i not in columns)
        if {cue.kind for cue in cues(extra)} & {"withdrawn", "against"}:
            continue
        for index in columns:
            if index == setting_at or index >= len(row.cells):
                continue
            title = header.cells[index] if index < len(header.cells) else ""
            label = (title,) if len(columns) > 1 or label_of(title).modes else ()
            yield from _cell(setting, index, row, label, _needed(header, row, index))


def _needed(header: Row, row: Row, value_index: int) -> str:
    """Text of the row's other cells that may call the value essential."""
    said = [row.cells[i] for i in range(len(row.cells)) if i != value_index]
    for title, cell in zip(header.cells, row.cells, strict=False):
        if title in REQUIRES and YES.match(cell):
            said.append("required")
    return " ".join(said)


def _value_columns(header: Row, body: list[Row], width: int) -> list[int]:
    """Columns that hold recommended values: those titled so, else modes, else the only one."""
    titles = [header.cells[i] if i < len(header.cells) else "" for i in range(width)]
    numeric = [i for i in range(width) if any(_is_value(row, i) for row in body)]
    advised = [i for i in numeric if verdict(titles[i]) is Verdict.ADVICE]
    if advised:
        return advised
    named = [
        i for i in numeric if VALUE_HEADER.search(titles[i]) and not OTHER_HEADER.search(titles[i])
    ]
    if named:
        return named
    presets = [i for i in numeric if not OTHER_HEADER.search(titles[i])]
    default = [i for i in numeric if presets and DEFAULT_HEADER.fullmatch(titles[i])]
    return sorted({*default, *presets})


def _is_value(row: Row, index: int) -> bool:
    if index >= len(row.cells) or _setting(row.cells[index]):
        return False
    return bool(re.match(r"[\s\"'~≈≤≥<>]*[-+]?\.?\d", row.cells[index])) or bool(
        FORBIDS.match(row.cells[index])
    )


def _cell(setting: str, index: int, row: Row, labels: tuple[str, ...], said: str) -> Iterator[Cell]:
    cell, line, text = row.cells[index], row.line_of(index), " | ".join(row.cells)
    if setting == "system":
        if NONE.match(cell):
            yield Cell(None, "system", line, labels, False, text)
        return
    if FORBIDS.match(cell):
        yield Cell(None, setting, line, labels, False, text)
        return
    if len(cell) > 60:
        return
    required = f"{said} {cell}" in REQUIRES and f"{said} {cell}" not in NOT_REQUIRED
    for figure in figures(cell, topic=setting):
        if figure.setting == setting:
            yield Cell(figure, None, line, labels, required, text)
