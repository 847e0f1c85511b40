"""Tokens to text while they arrive: thinking, answer and tool calls apart; no half characters,
no part of a marker or of a stop string."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from llm_specdec.prompting.markers import MarkerScanner, begun
from llm_specdec.prompting.sections import REASONING, TEXT, TOOL, Sections

HALF = "\ufffd"  # what decoders make of a character whose bytes did not all come
SEAM = "\uffff"  # no character: put between tokens, so that no marker matches across it


class Piece(NamedTuple):
    """Text of one section; a tool call comes whole, `closed` where its end marker came too."""

    section: str
    text: str
    closed: bool = True


class TextStream:
    """Feeds committed tokens to mlx-lm's streaming detokenizer, splits what it gives into
    sections and watches the answer for stop strings.

    `feed` is told of each committed token and says whether a stop string is now complete;
    `take` gives the pieces that can be shown: what might still become a marker or a stop string
    waits. White space next to a marker is layout and is dropped.
    opening: the end of the prompt that belongs to the answer, such as `<think>`.
    """

    def __init__(
        self,
        detokenizer: Any,
        stop: Sequence[str] = (),
        sections: Sections | None = None,
        opening: str = "",
    ) -> None:
        sections = sections or Sections()
        self._detokenizer = detokenizer
        self._detokenizer.reset()
        self._scanner = MarkerScanner(sections.edges, sections.first)
        self.section = sections.first  # that the next token belongs to, by the text so far
        self._seam = SEAM if sections.whole else ""
        self._end_marker = max(len(sections.think_end), 1)
        self._stop = [text for text in stop if text]
        self._held = ""  # of the answer: it may become a stop string
        self._space = ""  # white space that may turn out to stand before a marker
        self._call = ""
        self._fresh = False  # right after a marker
        self._ready: list[Piece] = []
        self.stopped_by: str | None = None
        self._read(opening)  # for the section it leads to; none of its text is the answer's
        self._scanner.flush()
        self._held = self._space = ""
        self._ready = []
        self.reasoning = 0  # tokens between the markers of thinking

    def feed(self, token: int) -> bool:
        before = self.section
        self._detokenizer.add_token(token)
        if segment := self._detokenizer.last_segment:
            self._read(self._seam + segment)
        if before == REASONING:
            # The tokens that began its end marker were counted before it was complete.
            inside = self.section == REASONING
            self.reasoning = max(0, self.reasoning + (1 if inside else 1 - self._end_marker))
        return self.stopped_by is not None

    def take(self) -> list[Piece]:
        ready, self._ready = self._ready, []
        return ready

    def finish(self) -> list[Piece]:
        """The rest of the text once the run has ended."""
        if not self.stopped_by:
            self._detokenizer.finalize()
            self._read(self._detokenizer.last_segment.rstrip(HALF))
            self._add(self._scanner.flush())
            self._leave(ended=True)
        return self.take()

    def _read(self, text: str) -> None:
        parts = self._scanner.feed(text)
        for at, (section, part) in enumerate(parts):
            if self.stopped_by:
                return
            if at:  # a marker stands before all but the first
                self._leave()
                self.section, self._fresh = section, True
            # Before a marker, the beginning of a character that was cut off may stand.
            self._add(part.rstrip(HALF + SEAM) if at < len(parts) - 1 else part)

    def _add(self, text: str) -> None:
        """More text of the section under way."""
        text = text.replace(SEAM, "")
        if self.section == TOOL:
            self._call += text
        elif self.section == TEXT:
            self._answer(text)
        elif self.section == REASONING:
            self._show(text)

    def _leave(self, ended: bool = False) -> None:
        """The section under way is over: by a marker, or with the run."""
        if self.section == TOOL:
            self._ready.append(Piece(TOOL, self._call, closed=not ended))
            self._call = ""
        elif self.section == TEXT:
            self._show(self._held)
            self._held = ""
        if ended and self.section == TEXT and self._space:
            self._ready.append(Piece(TEXT, self._space))
        self._space = ""

    def _answer(self, text: str) -> None:
        self._held += text
        complete = [(self._held.find(stop), stop) for stop in self._stop if stop in self._held]
        if complete:
            at, self.stopped_by = min(complete)
            shown, self._held = self._held[:at], ""
            self._show(shown)
            self._leave(ended=True)
        else:
            end = len(self._held) - begun(self._stop, self._held)
            shown, self._held = self._held[:end], self._held[end:]
            self._show(shown)

    def _show(self, text: str) -> None:
        text = self._space + text
        if self._fresh:
            text = text.lstrip()
        shown = text.rstrip()
        self._space = text[len(shown) :]
        if shown:
            self._fresh = False
            self._ready.append(Piece(self.section, shown))
