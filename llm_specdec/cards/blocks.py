"""A card's Markdown as blocks with line numbers, and for each block what introduces it.

markdown-it-py finds the blocks; HTML is made Markdown first.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from llm_specdec.cards.clean import BREAK, clean
from llm_specdec.cards.front import body_start
from llm_specdec.cards.markup import Source, as_markdown

PARSER = MarkdownIt("commonmark").enable("table").disable("inline")
Kind = Literal["heading", "text", "code", "table"]
# What stands further down is not read, and a note says so.
LARGEST = 200_000  # characters
MOST_LINES = 8_000
LABEL_LEVEL = 7  # a bold line or a short one that ends in a colon heads what follows it
BOLD_LINE = re.compile(
    r"\s{0,9}(\*\*|__|<(?:b|strong)>)(?:(?!\*\*|__).){1,200}(\*\*|__|</(?:b|strong)>):?\s{0,9}",
    re.I,
)


@dataclass
class Text:
    """Cleaned lines, joined by newlines; `line_of` gives the card's line of an offset."""

    numbers: list[int]
    text: str

    def line_of(self, offset: int) -> int:
        row = bisect_right(self.ends, offset - 1)
        return self.numbers[min(row, len(self.numbers) - 1)]

    @cached_property
    def ends(self) -> list[int]:
        """Offsets of the line breaks."""
        return [match.start() for match in re.finditer("\n", self.text)]

    @classmethod
    def of(cls, lines: list[tuple[int, str]]) -> "Text":
        ends = [BREAK if BOLD_LINE.fullmatch(line) else "" for _, line in lines]
        text = "\n".join(line + end for (_, line), end in zip(lines, ends, strict=True))
        return cls([number for number, _ in lines], clean(text))


@dataclass
class Row:
    """A table row. lines: those of its cells, where they may differ from the row's."""

    line: int
    cells: list[str]
    lines: tuple[int, ...] = ()

    def line_of(self, index: int) -> int:
        return self.lines[index] if index < len(self.lines) else self.line


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
    item: bool = False

    @property
    def first(self) -> int:
        """The card's line that it starts at."""
        return self.text.numbers[0]

    @property
    def opens(self) -> bool:
        """Whether it ends in a colon."""
        return self.text.text.rstrip().endswith(":")

    @property
    def raw_lines(self) -> list[tuple[int, str]]:
        return list(zip(self.text.numbers, self.text.text.split("\n"), strict=True))


def lines_of(card: str) -> list[str]:
    """The lines of a card as editors count them, of a very long card the first ones."""
    return re.split(r"\r\n|\r|\n", card[:LARGEST])[:MOST_LINES]


def split(card: str) -> list[Block]:
    """All blocks of a card below its front matter, in order."""
    lines = lines_of(card)
    start = body_start(card)
    numbered = [Source(number, line) for number, line in enumerate(lines, 1)]
    parsed = list(as_markdown(numbered[start:])) or [Source(1, "")]
    return _Walk(parsed).run(PARSER.parse("\n".join(line.text for line in parsed)))


@dataclass
class _Frame:
    """An open container: the document, a quote, a list or a list item."""

    kind: str
    intro: Block | None = None
    last: Block | None = None


class _Walk:
    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.blocks: list[Block] = []
        self.frames = [_Frame("document")]
        self.headings: list[Block] = []
        self.used: set[int] = set()  # first lines of labels that already head something

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
            self._heading(self._lines(tokens[index + 1]), int(token.tag[1]))
        elif kind == "paragraph_open":
            self._paragraph(self._lines(tokens[index + 1]))
        elif kind in ("fence", "code_block"):
            self._code(token)
        elif kind == "html_block":
            self._paragraph(self._lines(token))
        elif kind == "table_open":
            return self._table(tokens, index)
        return index + 1

    def _lines(self, token: Token, skipped: int = 0) -> list[tuple[int, str]]:
        start = (token.map or [0])[0] + skipped
        lines = token.content.rstrip("\n").split("\n")
        last = len(self.sources) - 1
        return [(self.sources[min(start + i, last)].number, line) for i, line in enumerate(lines)]

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
        block.item = frame.kind == "list_item_open" and frame.last is None
        self.blocks.append(block)
        self.used |= {
            h.first for h in self.headings
            if block.kind != "text" or block.item or block.quoted > h.quoted
        }  # fmt: skip
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
            self.headings = [
                h for h in self.headings if h.label != "colon" or h.first not in self.used
            ]
        block = self._emit(Block("text", text))
        self.frames[-1].last = block

    def _label(self, text: Text, bold: bool) -> None:
        self._drop_headings(LABEL_LEVEL)
        intro = self.frames[-1].last
        block = self._emit(Block("heading", text, level=LABEL_LEVEL))
        block.label = "bold" if bold else "colon"
        block.intro = intro if intro and intro.opens else None
        self.headings.append(block)
        self.frames[-1].last = block.intro

    def _code(self, token: Token) -> None:
        numbered = self._lines(token, 1 if token.type == "fence" else 0)
        text = Text([number for number, _ in numbered], "\n".join(line for _, line in numbered))
        self._emit(Block("code", text, language=token.info.strip().split(" ")[0].lower()))
        self.frames[-1].last = None

    def _table(self, tokens: list[Token], index: int) -> int:
        rows: list[Row] = []
        while tokens[index].type != "table_close":
            token = tokens[index]
            if token.type == "tr_open":
                source = self.sources[(token.map or [0])[0]]
                rows.append(Row(source.number, [], source.cells))
            elif token.type == "inline":
                rows[-1].cells.append(clean(token.content))
            index += 1
        if rows:
            text = Text([row.line for row in rows], "\n".join(" | ".join(r.cells) for r in rows))
            self._emit(Block("table", text, rows=rows))
        self.frames[-1].last = None
        return index + 1


def _short_label(text: str) -> bool:
    return "\n" not in text and text.rstrip().endswith(":") and len(text.split()) <= 6


def _has_figure(text: str) -> bool:
    return bool(re.search(r"\d", re.sub(r"^\s*\d+[.)]\s*", "", text)))
