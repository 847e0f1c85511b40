"""One look-up over memory and disk."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_specdec.engine.states import Entry, Found
from llm_specdec.prefix_cache.keys import Key

LEAST = 32  # positions; reading fewer is no slower than restoring them


class Tier(Protocol):
    """One place that keeps entries. Never raises: a damaged entry counts as absent, one that
    does not fit is not kept."""

    def longest(self, key: Key, prompt: Sequence[int], beyond: int = 0) -> Found | None:
        """The entry with the most usable positions, its arrays in memory (evaluated); None
        where there are no more than `beyond`, and then nothing needs to be read."""
        ...

    def put(self, key: Key, entry: Entry) -> None:
        """Keep the entry, and let go of others where room is needed."""
        ...


@dataclass(frozen=True)
class PrefixCache:
    """The entries of one key. What has fewer than `least` positions is not kept on disk, and used
    only where it is the whole of a short prompt, asked again."""

    key: Key
    hot: Tier
    disk: Tier | None = None
    least: int = LEAST

    def longest(self, prompt: Sequence[int]) -> Found | None:
        """The entry with the most usable positions, the one in memory where both are equal.
        An entry read from disk is hot from then on."""
        most = len(prompt) - 1
        best = self.hot.longest(self.key, prompt, max(0, min(self.least, most) - 1))
        beyond = max(best.length if best else 0, self.least - 1)
        if self.disk is None or beyond >= most:
            return best
        if cold := self.disk.longest(self.key, prompt, beyond):
            self.hot.put(self.key, cold.entry)
        return cold or best

    def keep(self, entries: Iterable[Entry]) -> None:
        """Keep these in memory."""
        for entry in entries:
            self.hot.put(self.key, entry)

    def store(self, entries: Iterable[Entry]) -> None:
        """Keep these on disk, where there is one."""
        for entry in entries:
            if self.disk is not None and entry.length >= self.least:
                self.disk.put(self.key, entry)
