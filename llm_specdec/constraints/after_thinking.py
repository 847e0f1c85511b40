"""A grammar for the answer of a model that thinks first."""

from collections.abc import Sequence
from typing import NamedTuple

from llm_specdec.constraints.grammar import GrammarConstraint
from llm_specdec.constraints.masks import Bits, begun, only
from llm_specdec.prompting.sections import REASONING, Sections

OPENING, THINKING, LEADING, ANSWER = "opening", "thinking", "leading", "answer"


class _At(NamedTuple):
    """Where a text stands: before any thinking, in it, on the way from it to the answer, or in
    the answer; and the tokens of that part, of thinking the last few, of the answer none."""

    part: str
    tokens: tuple[int, ...] = ()


class AfterThinking:
    """A `Constraint`: thinking is free but for end tokens, and must end while there is room for
    the answer, which is the grammar's.

    section: the one that the first token of the output belongs to. Where that is not thinking,
    the model may begin to think while there is room for it, or answer at once.

    Raises UsageError where the shortest answer does not fit after what must come before it.
    """

    def __init__(self, answer: GrammarConstraint, sections: Sections, section: str) -> None:
        self._answer, self._start, self._end = answer, sections.think_start, sections.think_end
        self._closing = sections.closing or sections.think_end
        # Harmony: the header that leads to an answer after thinking does so without, too.
        lead = self._closing.index(self._start[0]) if sections.closing else len(self._closing)
        self._lead = self._closing[lead:]
        self._reserve = answer.reserve + len(self._closing)
        self._unended = ~self._only(*answer.eos)
        self._at = _At(THINKING if section == REASONING else OPENING)
        answer.admit(len(self._closing if section == REASONING else self._lead))

    def allowed(self, drafts: Sequence[int]) -> Bits | None:
        at, answer = self._at, self._answer
        for i, token in enumerate(drafts):
            if self._answers(at, token):
                return answer.allowed(drafts[i:], before=i)
            at = self._after(at, token, answer.left - i)
        if at.part == ANSWER:
            return answer.allowed((), before=len(drafts))
        if at.part == OPENING:
            return self._opening(at.tokens, len(drafts))
        if at.part == THINKING and answer.left - len(drafts) > self._reserve:
            return self._unended
        return self._only(self._closing[self._closed(at)])

    def commit(self, tokens: Sequence[int]) -> None:
        for i, token in enumerate(tokens):
            if self._answers(self._at, token):
                self._at = _At(ANSWER)
                self._answer.commit(tokens[i:])
                return
            self._at = self._after(self._at, token, self._answer.left)
            self._answer.spend(1)

    def _opening(self, tokens: tuple[int, ...], drafts: int) -> Bits:
        """What goes on with the marker of thinking, or with the answer or its lead."""
        n = len(tokens)
        thought = len(self._start) - n + len(self._closing)
        starts = [self._start] if self._answer.fits(drafts + thought) else []
        ways = [way for way in (*starts, self._lead) if len(way) > n and way[:n] == tokens]
        allowed = self._only(*(way[n] for way in ways))
        first = None if self._lead or tokens else self._answer.allowed((), before=drafts)
        return allowed if first is None else allowed | first

    def _answers(self, at: _At, token: int) -> bool:
        """Whether `token` belongs to the answer."""
        at_once = at == _At(OPENING) and not self._lead and token != self._start[0]
        return at.part == ANSWER or at_once

    def _after(self, at: _At, token: int, left: int) -> _At:
        """left: tokens that might still come, this one included."""
        text = (*at.tokens, token)
        if at.part == OPENING:
            parts = {self._start: THINKING, self._lead: ANSWER}
            return _At(parts[text]) if text in parts else _At(OPENING, text)
        if at.part == LEADING or left <= self._reserve:
            text = self._closing[: self._closed(at) + 1]
        elif text[-len(self._end) :] == self._end:
            text = self._end
        else:
            return _At(THINKING, text[-len(self._closing) :])
        return _At(ANSWER) if text == self._closing else _At(LEADING, text)

    def _closed(self, at: _At) -> int:
        """How many tokens of the way to the answer are there already."""
        return len(at.tokens) if at.part == LEADING else begun(self._closing, at.tokens)

    def _only(self, *tokens: int) -> Bits:
        return only(tokens, self._answer.vocab_size)
