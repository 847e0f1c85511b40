"""One look-up over all tiers."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_specdec.engine.prefix_cache.entry import Entry, Found, Key, Tier

LEAST = 32  # positions; reading fewer is no slower than restoring them


@dataclass(frozen=True)
class PrefixCache:
    """The entries of one key over all tiers, the fastest first. Entries and reuse of fewer than
    `least` positions are not worth it."""

    key: Key
    tiers: Sequence[Tier]
    least: int = LEAST

    def longest(self, prompt: Sequence[int]) -> Found | None:
        """The entry with the most usable positions, the fastest tier's where several have it.
        What a slower tier has goes into the fastest."""
        best: Found | None = None
        for tier in self.tiers:
            beyond = best.length if best else self.least - 1
            if beyond >= len(prompt) - 1:
                break  # no entry can serve more
            best = tier.longest(self.key, prompt, beyond) or best
        if best:
            self.tiers[0].put(self.key, best.entry)
        return best

    def put(self, entry: Entry) -> None:
        """Keep the entry in every tier."""
        if entry.length >= self.least:
            for tier in self.tiers:
                tier.put(self.key, entry)
