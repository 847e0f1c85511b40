"""A run's drafters under its policy: who drafts next, and how much of the text they know."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import mlx.core as mx

from llm_specdec.engine.committed import Committed
from llm_specdec.engine.drafter import Drafter, Hidden, Proposal, Tap
from llm_specdec.engine.policy import Pick, Policy
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.sampler import Sampler


class Draft(NamedTuple):
    """A draft that is asked for: of whom, as which source, and how many tokens."""

    drafter: Drafter
    source: str
    length: int


class Drafting:
    """drafter: the run's own. helper: proposes in its place where the policy expects more of
    it, and keeps no state but the tokens. longest: draft tokens that the target can verify.

    known: committed tokens that all drafters know, 0 while one is at work: if interrupted there,
    how much it knows is unknown.
    """

    def __init__(
        self,
        drafter: Drafter | None,
        helper: Drafter | None,
        policy: Policy,
        text: Committed,
        longest: int,
    ) -> None:
        self.drafter, self.policy = drafter, policy
        self._text, self._longest = text, longest
        self._drafters = [one for one in (drafter, helper) if one is not None]
        self._pick: Pick | None = None  # the last one, until `observe`
        self.known = 0

    @property
    def lane(self) -> tuple[Literal["drafting", "parked", "off"], str | None]:
        """What the policy makes of the drafter now, and why where that needs saying."""
        return (self.policy.state, self.policy.reason) if self.drafter else ("off", None)

    @property
    def taps(self) -> Sequence[Tap]:
        return self.drafter.taps if self.drafter else ()

    def start(self, token: int) -> None:
        """Forget everything; `token` is the first of the prompt."""
        with self._at_work(learned=1):
            for drafter in self._drafters:
                drafter.start(token)

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        """Restore a `state()` of drafters that know `tokens`."""
        with self._at_work(learned=len(tokens)):
            for drafter in self._drafters:
                drafter.load_state(arrays if drafter is self.drafter else [], tokens)

    def state(self) -> list[mx.array]:
        """The drafter's state."""
        with self._at_work():
            return self.drafter.state() if self.drafter else []

    def trims(self, length: int) -> bool:
        """Whether a `state()` of `length` positions can be cut to any shorter length."""
        return self.drafter is None or self.drafter.trims(length)

    def next(self) -> Draft | None:
        """Who drafts next, never more than may still be committed; None where the next token is
        decoded without a draft. May be asked any number of times a round."""
        most = min(self._text.left - 1, self._longest)
        ready = {drafter.source: drafter for drafter in self._drafters if drafter.ready()}
        if most <= 0 or not ready:
            return None
        self._pick = self.policy.pick(list(ready), self._text.length)
        drafter = ready[self._pick.source]
        length = min(self._pick.length, most, drafter.max_draft or most)
        return Draft(drafter, self._pick.source, length) if length else None

    def propose(self, draft: Draft, sampler: Sampler, cache: RollbackCache) -> Proposal:
        with self._at_work():
            return draft.drafter.propose(draft.length, DraftSampler(sampler, cache))

    def observe(self, draft: Draft | None, drafted: int, accepted: int) -> None:
        """Tell the policy how a round ended; draft: None for one without a draft."""
        if self.drafter:
            source = draft.source if draft else self.drafter.source
            self.policy.observe(source, drafted, accepted, self._pick)
        self._pick = None

    def extend(self, tokens: Sequence[int], hidden: Hidden) -> None:
        """Take in the next committed tokens, with hidden states of the positions before each."""
        with self._at_work(learned=len(tokens)):
            for drafter in self._drafters:
                drafter.extend(tokens, hidden)

    @contextlib.contextmanager
    def _at_work(self, learned: int = 0) -> Iterator[None]:
        known, self.known = self.known, 0
        yield
        self.known = known + learned
