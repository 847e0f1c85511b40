"""Prompt lookup: propose what followed the same words earlier in prompt or output.

No weights: text that quotes, copies or edits its input is drafted from the input itself.
Source of the idea: Saxena, "Prompt Lookup Decoding" (2023).
"""

from collections import defaultdict
from collections.abc import Sequence

import mlx.core as mx

from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap

MIN_MATCH = 3  # tokens; shorter matches are mostly chance
MAX_MATCH = 32  # tokens compared to rank candidates
LONG_MATCH = 8  # tokens; such matches mostly go on
CANDIDATES = 8  # most recent places kept for each n-gram


class LookupDrafter:
    """An index from every n-gram of MIN_MATCH tokens to the places that follow it."""

    kind = "lookup"
    taps: tuple[Tap, ...] = ()
    max_draft: int | None = None

    def __init__(self, least: int = MIN_MATCH) -> None:
        """least: tokens that a match must have to be worth a proposal."""
        self._least = least
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._match: tuple[int, int] | None = None

    def start(self, token: int) -> None:
        self._tokens = [token]
        self._places = defaultdict(list)
        self._match = None

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        """Index each n-gram once its following token is known, so that the newest n-gram
        never finds itself. Constant work a token."""
        for token in next_tokens:
            if len(self._tokens) >= MIN_MATCH:
                places = self._places[tuple(self._tokens[-MIN_MATCH:])]
                places.append(len(self._tokens))
                del places[:-CANDIDATES]
            self._tokens.append(token)
        self._match = self._longest_match()

    @property
    def source(self) -> str:
        return "lookup-long" if self._match and self._match[1] >= LONG_MATCH else "lookup"

    def ready(self) -> bool:
        return self._match is not None and self._match[1] >= self._least

    def propose(self, k: int, draw: Draw) -> Proposal:
        """What followed the longest match; a longer match is trusted for a longer draft."""
        assert self._match is not None
        place, matched = self._match
        trusted = matched if matched < 2 * MIN_MATCH else 4 * matched
        drafts = self._tokens[place : place + min(k, trusted)]
        return Proposal(mx.array(drafts, dtype=mx.int32))

    def state(self) -> list[mx.array]:
        return []

    def trims(self, length: int) -> bool:
        return True

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self.start(tokens[0])
        self.extend(tokens[1:], {})

    def _longest_match(self) -> tuple[int, int] | None:
        """(place that follows the match, matched tokens), the latest of the longest."""
        places = self._places.get(tuple(self._tokens[-MIN_MATCH:]), [])
        if not places:
            return None
        matched, place = max((self._matched(place), place) for place in places)
        return place, matched

    def _matched(self, place: int) -> int:
        """How many tokens before `place` equal the newest ones."""
        tokens, end = self._tokens, len(self._tokens)
        longest = min(place, MAX_MATCH)
        for back in range(MIN_MATCH + 1, longest + 1):
            if tokens[place - back] != tokens[end - back]:
                return back - 1
        return max(longest, MIN_MATCH)
