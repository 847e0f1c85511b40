"""Token sequences by their beginnings. They are sorted: the one that shares the longest
beginning with a prompt is next to where the prompt itself would be."""

from bisect import bisect_left, insort

from llm_specdec.prefix_cache.matching import common

Tokens = tuple[int, ...]


class Index:
    """A set of token sequences. A look-up takes the logarithm of their number."""

    def __init__(self) -> None:
        self._sorted: list[Tokens] = []

    def __contains__(self, tokens: Tokens) -> bool:
        at = bisect_left(self._sorted, tokens)
        return self._sorted[at : at + 1] == [tokens]

    def add(self, tokens: Tokens) -> None:
        if tokens not in self:
            insort(self._sorted, tokens)

    def remove(self, tokens: Tokens) -> None:
        del self._sorted[bisect_left(self._sorted, tokens)]

    def nearest(self, prompt: Tokens) -> Tokens | None:
        """The sequence with the longest common beginning; None where nothing is in common."""
        at = bisect_left(self._sorted, prompt)
        beside = self._sorted[max(at - 1, 0) : at + 1]
        nearest = max(beside, key=lambda tokens: common(tokens, prompt), default=())
        return nearest if common(nearest, prompt) else None

    def whole(self, prompt: Tokens) -> Tokens | None:
        """The longest sequence that the prompt begins with (or equals)."""
        while before := self._at_or_before(prompt):
            same = common(before, prompt)
            if same == len(before):
                return before
            # Any other candidate is within what the two have in common.
            prompt = prompt[:same]
        return None

    def _at_or_before(self, prompt: Tokens) -> Tokens:
        at = bisect_left(self._sorted, prompt)
        if self._sorted[at : at + 1] == [prompt]:
            return prompt
        return self._sorted[at - 1] if at else ()
