"""The text of a run so far, and where it ends."""

from llm_specdec.engine.request import Request, RunStats


class Committed:
    """Prompt and completion. The completion and the reason of its end are kept in `stats`."""

    def __init__(self, request: Request, stats: RunStats) -> None:
        self._request, self._stats = request, stats

    @property
    def tokens(self) -> list[int]:
        return [*self._request.prompt, *self._stats.completion]

    @property
    def length(self) -> int:
        return len(self._request.prompt) + len(self._stats.completion)

    @property
    def pending(self) -> int:
        """The last token, which the target's cache does not cover."""
        completion = self._stats.completion
        return completion[-1] if completion else self._request.prompt[-1]

    @property
    def left(self) -> int:
        """Tokens that may still be committed."""
        return self._request.max_tokens - len(self._stats.completion)

    @property
    def finished(self) -> bool:
        return self._stats.finish_reason != "interrupted"

    def commit(self, tokens: list[int]) -> list[int]:
        """Append tokens up to the first that ends the run; return those kept."""
        kept = []
        for token in tokens:
            kept.append(token)
            if token in self._request.eos or self._request.ends_at(token):
                self._stats.finish_reason = "stop"
            elif len(kept) >= self.left:
                self._stats.finish_reason = "length"
            if self.finished:
                break
        self._stats.completion += kept
        return kept
