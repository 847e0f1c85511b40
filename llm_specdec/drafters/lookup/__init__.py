"""Prompt lookup: text repeated from prompt and output, no weights.

A long match mostly goes on, so it is a source of its own, and may stand in for another drafter.
"""

from typing import TYPE_CHECKING

from llm_specdec.drafters.kind import DraftSource, Kind

if TYPE_CHECKING:
    from llm_specdec.engine.drafter import Drafter
    from llm_specdec.engine.session import Weights
    from llm_specdec.engine.target import Target

SHORT, LONG = DraftSource("lookup", 15), DraftSource("lookup-long", 15, prior=0.8)


class Lookup(Kind):
    name = "lookup"
    lane_words = "text repeated from prompt and answer"
    is_word = True
    has_weights = False
    sources = (SHORT, LONG)
    fallback = 8
    helped = False
    helps = LONG  # what it proposes in another drafter's place

    def load(self, weights: "Weights", target: "Target") -> "Drafter":
        from llm_specdec.drafters.lookup.drafter import LookupDrafter

        return LookupDrafter()

    def load_helper(self) -> "Drafter":
        """One that proposes long matches alone."""
        from llm_specdec.drafters.lookup.drafter import LONG_MATCH, LookupDrafter

        return LookupDrafter(LONG_MATCH)


KIND = Lookup()
