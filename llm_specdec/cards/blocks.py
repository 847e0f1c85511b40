"""A card's Markdown as blocks with line numbers, and for each block what introduces it.

markdown-it-py finds the blocks; HTML inside a card goes through `html.parser`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from llm_specdec.cards.clean import clean
from llm_specdec.cards.front import body_start

Kind = Literal["heading", "text", "code", "table"]
LABEL_LEVEL = 7  # a bold line or a short one that ends in a colon heads what follows it
BOLD_LINE = re.compile(
    r"\s*(\*\*|__|<(?:b|strong)>)(?:(?!\*\*|__).)+(\*\*|__|</(?:b|strong)>):?\s*", re.I
)


@dataclass
class Text:
    """Cleaned lines, joined by newlines; `line_of` gives the card's line of an offset."""

    numbers: list[int]
    text: str

    def line_of(self, offset: int) -> int:
        return self.numbers[min(self.text.count("\n", 0, offset), len(self.numbers) - 1)]

    @classmethod
    def of(cls, lines: list[tuple[int, str]]) -> "Text":
        return cls([number for number, _ in lines], clean("\n".join(line for _, line in lines)))


@dataclass
class Row:
    """A table row. lines: the line of each cell, where they differ from the row's."""

    line: int
    cells: list[str]
    lines: dict[int, int] = field(default_factory=dict)

    def line_of(self, index: int) -> int:
        return self.lines.get(index, self.line)


@dataclass
class Block:
    """One heading, paragraph (or list item's text), code block or table.

    intro: the text that introduces the block, a list item's own intro being the list's.
    headings: outermost first; labels (bold lines, short lines ending in a colon) included.
    label: of a heading: "title" (the card's first), "bold" or "colon" (a mere label), or "".
    """

    kind: Kind
    text: Text
    headings: tuple["Block", ...] = ()
    intro: "Block | None" = None
    level: int = 0
    label: str = ""
    language: str = ""
    rows: list[Row] = field(default_factory=list)
    quoted: int = 0
    folded: int = 0
    item: bool = False

    @property
    def intro_label(self) -> "Block | None":
        """The innermost heading or label above."""
        return self.headings[-1] if self.headings else None

    @property
    def raw_lines(self) -> list[tuple[int, str]]:
        return list(zip(self.text.numbers, self.text.text.split("\n"), strict=True))


def split(card: str) -> list[Block]:
    """All blocks of a card below its front matter, in order."""
    lines = re.split(r"\r\n|\r|\n", card)  # as editors count lines
    start = body_start(card)
    body = "\n".join([""] * start + lines[start:])
    return _Walk().run(MarkdownIt("commonmark").enable("table").parse(body))


@dataclass
class _Frame:
    """An open container: the document, a quote, a list or a list item."""

    kind: str
    intro: Block | None = None
    last: Block | None = None


class _Walk:
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.frames = [_Frame("document")]
        self.headings: list[Block] = []
        self.folds: list[int] = []  # numbers of the open <details>, innermost last
        self.folded = 0

    def run(self, tokens: list[Token]) -> list[Block]:
        index = 0
        while index < len(tokens):
            index = self._token(tokens, index)
        return self.blocks

    def _token(self, tokens: list[Token], index: int) -> int:
        token = tokens[index]
        kind = token.type
        if kind.endswith(("list_open", "list_item_open", "blockquote_open")):
            self._open(kind)
        elif kind.endswith(("list_close", "list_item_close", "blockquote_close")):
            self._close()
        elif kind == "heading_open":
            self._heading(_lines(tokens[index + 1]), int(token.tag[1]))
        elif kind == "paragraph_open":
            self._paragraph(_lines(tokens[index + 1]))
        elif kind in ("fence", "code_block"):
            self._code(token)
        elif kind == "html_block":
            self._html(token)
        elif kind == "table_open":
            return self._table(tokens, index)
        return index + 1

    # containers

    def _open(self, kind: str) -> None:
        outer = self.frames[-1]
        intro = outer.last or outer.intro
        if kind == "list_item_open":
            intro = outer.intro
        self.frames.append(_Frame(kind, intro))

    def _close(self) -> None:
        closed = self.frames.pop()
        if closed.kind != "list_item_open":
            self.frames[-1].last = None
        if closed.kind == "blockquote_open" and self._quotes() == 0:
            self.headings = [h for h in self.headings if not h.quoted]

    def _quotes(self) -> int:
        return sum(frame.kind == "blockquote_open" for frame in self.frames)

    # leaves

    def _emit(self, block: Block) -> Block:
        frame = self.frames[-1]
        block.headings = tuple(self.headings)
        block.intro = frame.last or frame.intro
        block.quoted = self._quotes()
        block.folded = self.folds[-1] if self.folds else 0
        block.item = frame.kind == "list_item_open" and frame.last is None
        self.blocks.append(block)
        return block

    def _heading(self, lines: list[tuple[int, str]], level: int) -> None:
        self._drop_headings(level)
        title = level == 1 and not any(block.kind == "heading" for block in self.blocks)
        label = "title" if title else ""
        block = self._emit(Block("heading", Text.of(lines), level=level, label=label))
        block.intro = None
        self.headings.append(block)
        self.frames[-1].last = None

    def _drop_headings(self, level: int) -> None:
        self.headings = [h for h in self.headings if h.level < level]

    def _paragraph(self, lines: list[tuple[int, str]]) -> None:
        lines = [
            (number, line) for number, line in lines if not re.fullmatch(r"\s*\[!\w+\]\s*", line)
        ]
        if not lines:
            return
        text = Text.of(lines)
        in_item = any(frame.kind == "list_item_open" for frame in self.frames)
        bold = len(lines) == 1 and BOLD_LINE.fullmatch(lines[0][1])
        if not in_item and (bold or _short_label(text.text)) and not _has_figure(text.text):
            self._label(text, bool(bold))
            return
        if self.frames[-1].last is None and not in_item:
            self.headings = [h for h in self.headings if h.label != "colon" or not self._used(h)]
        block = self._emit(Block("text", text))
        self.frames[-1].last = block

    def _used(self, label: Block) -> bool:
        """Whether a list, table, quote or code block has already stood below the label."""
        return any(
            label in b.headings and (b.kind != "text" or b.item or b.quoted > label.quoted)
            for b in self.blocks
        )

    def _label(self, text: Text, bold: bool) -> None:
        self._drop_headings(LABEL_LEVEL)
        intro = self.frames[-1].last
        block = self._emit(Block("heading", text, level=LABEL_LEVEL))
        block.label = "bold" if bold else "colon"
        block.intro = intro if intro and intro.text.text.rstrip().endswith(":") else None
        self.headings.append(block)
        self.frames[-1].last = block.intro

    def _code(self, token: Token) -> None:
        start = (token.map or [0])[0] + (2 if token.type == "fence" else 1)
        lines = token.content.rstrip("\n").split("\n")
        numbered = [(start + offset, line) for offset, line in enumerate(lines)]
        text = Text([number for number, _ in numbered], "\n".join(line for _, line in numbered))
        self._emit(Block("code", text, language=token.info.strip().split(" ")[0].lower()))
        self.frames[-1].last = None

    def _table(self, tokens: list[Token], index: int) -> int:
        rows: list[Row] = []
        while tokens[index].type != "table_close":
            token = tokens[index]
            if token.type == "tr_open":
                rows.append(Row((token.map or [0])[0] + 1, []))
            elif token.type == "inline":
                rows[-1].cells.append(clean(token.content))
            index += 1
        self._rows(rows)
        return index + 1

    def _rows(self, rows: list[Row]) -> None:
        if rows:
            text = Text([row.line for row in rows], "\n".join(" | ".join(r.cells) for r in rows))
            self._emit(Block("table", text, rows=rows))
        self.frames[-1].last = None

    def _html(self, token: Token) -> None:
        for event in _Html().events(token.content, (token.map or [0])[0] + 1):
            if event.kind == "fold":
                self.folded += 1
                self.folds.append(self.folded)
            elif event.kind == "unfold":
                self._unfold()
            elif event.kind == "heading":
                self._heading(event.lines, event.level)
            elif event.kind == "table":
                self._rows(event.rows)
            elif event.kind == "summary":
                self._label(Text.of(event.lines), True)
            else:
                self._paragraph(event.lines)
                if event.kind == "item" and self.frames[-1].last:
                    self.frames[-1].last.item = True
                    self.frames[-1].last = None

    def _unfold(self) -> None:
        if self.folds:
            closed = self.folds.pop()
            self.headings = [h for h in self.headings if h.folded != closed]


def _lines(inline: Token) -> list[tuple[int, str]]:
    start = (inline.map or [0])[0] + 1
    return [(start + offset, line) for offset, line in enumerate(inline.content.split("\n"))]


def _short_label(text: str) -> bool:
    return "\n" not in text and text.rstrip().endswith(":") and len(text.split()) <= 6


def _has_figure(text: str) -> bool:
    return bool(re.search(r"\d", re.sub(r"^\s*\d+[.)]\s*", "", text)))


@dataclass
class _Event:
    kind: str
    lines: list[tuple[int, str]] = field(default_factory=list)
    level: int = 0
    rows: list[Row] = field(default_factory=list)


class _Html(HTMLParser):
    """The text of an HTML block, cut at its block-level tags."""

    BREAKS = frozenset(
        ["p", "div", "br", "li", "ul", "ol", "section", "center", "blockquote", "pre", "hr"]
    )

    def events(self, source: str, first_line: int) -> Iterator[_Event]:
        self.first = first_line
        self.found: list[_Event] = []
        self.lines: list[tuple[int, str]] = []
        self.rows: list[Row] | None = None
        self.tag = "text"
        self.feed(source)
        self.close()
        self._flush()
        return iter(self.found)

    def _flush(self, kind: str = "text", level: int = 0) -> None:
        lines = [(number, line) for number, line in self.lines if line.strip()]
        self.lines = []
        if lines:
            self.found.append(_Event(kind, lines, level))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._flush()
            self.rows = []
        elif tag == "tr" and self.rows is not None:
            self.rows.append(Row(self.first + self.getpos()[0] - 1, []))
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].cells.append("")
        elif tag == "details":
            self._flush()
            self.found.append(_Event("fold"))
        elif tag in self.BREAKS or tag == "summary" or re.fullmatch(r"h[1-6]", tag):
            self._flush()

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self.rows is not None:
            self.found.append(_Event("table", rows=[row for row in self.rows if row.cells]))
            self.rows = None
        elif re.fullmatch(r"h[1-6]", tag):
            self._flush("heading", int(tag[1]))
        elif tag == "summary":
            self._flush("summary")
        elif tag == "li":
            self._flush("item")
        elif tag == "details":
            self._flush()
            self.found.append(_Event("unfold"))
        elif tag in self.BREAKS:
            self._flush()

    def handle_data(self, data: str) -> None:
        if self.rows is not None:
            self._cell_text(data)
            return
        number = self.first + self.getpos()[0] - 1
        for offset, line in enumerate(data.split("\n")):
            if self.lines and self.lines[-1][0] == number + offset:
                self.lines[-1] = (number + offset, self.lines[-1][1] + line)
            else:
                self.lines.append((number + offset, line))

    def _cell_text(self, data: str) -> None:
        if data.strip() and self.rows and self.rows[-1].cells:
            row, index = self.rows[-1], len(self.rows[-1].cells) - 1
            row.lines.setdefault(index, self.first + self.getpos()[0] - 1)
            row.cells[index] = clean((row.cells[index] + data).strip())
