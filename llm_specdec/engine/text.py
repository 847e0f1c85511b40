"""Tokens to text while they arrive: no half characters, no part of a stop string."""

from collections.abc import Sequence
from typing import Any


class TextStream:
    """Feeds committed tokens to mlx-lm's streaming detokenizer and watches for stop strings.

    `feed` is told of each committed token and says whether a stop string is now complete;
    `take` gives the text that can be shown: what might still become a stop string waits.
    """

    def __init__(self, detokenizer: Any, stop: Sequence[str] = ()) -> None:
        self._detokenizer = detokenizer
        self._detokenizer.reset()
        self._stop = [text for text in stop if text]
        self._held = ""
        self.stopped_by: str | None = None

    def feed(self, token: int) -> bool:
        self._detokenizer.add_token(token)
        self._held += self._detokenizer.last_segment
        return self._stops()

    def take(self) -> str:
        keep = 0 if self.stopped_by else self._partial()
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown

    def finish(self) -> str:
        """The rest of the text once the run has ended."""
        if not self.stopped_by:
            self._detokenizer.finalize()
            self._held += self._detokenizer.last_segment
            self._stops()
        shown, self._held = self._held, ""
        return shown

    def _stops(self) -> bool:
        """Cut the text before the first stop string found in it."""
        found = [(self._held.find(text), text) for text in self._stop if text in self._held]
        if found and not self.stopped_by:
            at, self.stopped_by = min(found)
            self._held = self._held[:at]
        return bool(found)

    def _partial(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        return max(
            (
                size
                for text in self._stop
                for size in range(1, len(text))
                if self._held.endswith(text[:size])
            ),
            default=0,
        )
