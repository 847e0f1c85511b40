"""The one loop for all drafters: propose → verify → accept → rollback → commit.

Invariant: outside a round the target's cache covers exactly the committed
tokens but the last, the pending token; at every end, an interrupt too, that holds again.
"""

import functools
from collections.abc import Iterator
from typing import cast

import mlx.core as mx

from llm_specdec.engine.committed import Committed
from llm_specdec.engine.drafter import Drafter, Hidden
from llm_specdec.engine.drafting import Draft, Drafting
from llm_specdec.engine.hardware.device import peak_memory
from llm_specdec.engine.outcome import Outcome
from llm_specdec.engine.passes import Pass, Passes
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Policy
from llm_specdec.engine.prefill import prefill
from llm_specdec.engine.prefix import PrefixStates
from llm_specdec.engine.request import Request, RunStats
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.states import Prefixes
from llm_specdec.engine.target import Target

GIVE_BACK = 256  # tokens, after which mlx's freed buffers go back, as in mlx-lm's generate_step


class Run:
    """Decodes one request: iterate `tokens()` once, then read `outcome`.

    helper: proposes in the drafter's place where it has something better, as `policy` judges.
    """

    passes: Passes  # while `tokens` runs

    def __init__(
        self,
        target: Target,
        cache: RollbackCache,
        drafter: Drafter | None,
        policy: Policy,
        request: Request,
        timer: PhaseTimer,
        helper: Drafter | None = None,
        prefix_cache: Prefixes | None = None,
    ) -> None:
        self.target, self.cache, self.timer, self.stats = target, cache, timer, RunStats()
        self.text = Committed(request, self.stats)
        self.sampler = Sampler(request, target.vocab_size)
        self.drafting = Drafting(drafter, helper, policy, self.text, cache.max_draft)
        self.prefix = PrefixStates(cache, self.drafting, request, prefix_cache)

    def tokens(self) -> Iterator[list[int]]:
        """Yield the tokens of each round as they are committed; none for a part of the prompt."""
        self.passes = Passes(self.target, self.cache, self.drafting.taps, self.sampler)
        try:
            yield from self._first()
            while not self.text.finished:
                if draft := self.drafting.next():
                    yield self._round(draft)
                else:
                    yield from self._plain()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            self.prefix.discard()
            raise
        finally:
            self.cache.rollback(min(self.cache.length, self.text.length - 1))
            self.passes.close()
            self.timer.finish()

    @property
    def outcome(self) -> Outcome:
        lane, reason = self.drafting.lane
        entries = functools.partial(self.prefix.entries, self.text.tokens)
        cached, size = self.prefix.cached, self.cache.nbytes
        return Outcome(self.stats, cached, lane, reason, peak_memory(), size, entries)

    def _first(self) -> Iterator[list[int]]:
        """Read the prompt and draw the first token alone, so that TTFT never hides draft tokens."""
        self.timer.add("prefill")  # what came before
        if cached := self.prefix.restore():
            self.timer.add("restore")
        logits, hidden, _ = yield from prefill(self.passes, self.prefix, cached)
        token, _ = self.sampler.draw(logits[-1:])
        tokens = self._commit(cast(list[int], token.tolist()), hidden)
        self.timer.add("prefill")
        self.timer.first_token()
        yield tokens

    def _round(self, draft: Draft) -> list[int]:
        """A round with a draft."""
        synced = self.timer.begin_round(draft.length)
        proposal = self.drafting.propose(draft, self.sampler, self.cache)
        if synced:
            mx.eval(proposal.tokens, proposal.probs)
        else:
            mx.async_eval(proposal.tokens)  # the device drafts while the verify pass is built
        self.timer.phase("draft")

        pending = mx.array([self.text.pending])
        logits, hidden, _ = self.passes.forward(mx.concatenate([pending, proposal.tokens]))
        tokens, accepted = self.sampler.judge(logits, proposal).fetch()
        self.timer.phase("verify")

        self.cache.rollback(self.text.length + accepted)
        if synced:
            mx.eval(self.cache.arrays())
        self.timer.phase("replay")

        self.drafting.observe(draft, len(proposal), accepted)
        tokens = self._commit(tokens, hidden)
        self.stats.count(draft.source, len(proposal), min(accepted, len(tokens)), len(tokens))
        self.timer.phase("commit")
        self.timer.end_round(draft.length, synced, width=1 + len(proposal))
        return tokens

    def _plain(self) -> Iterator[list[int]]:
        """Decode a token a round for as long as no draft is asked for. The pass over a token is
        launched before the host has seen it, so the device never waits for the host."""
        self.timer.begin_round(0)
        ahead: Pass | None = self.passes.launch(mx.array([self.text.pending]))
        while ahead and not self.text.finished:
            logits, hidden, token = ahead
            if token is None:
                token, _ = self.sampler.draw(logits)
                mx.async_eval(token)  # apart, or it would be there only after the next pass
            likely = self.text.left > 1 and self.drafting.next() is None
            ahead = self.passes.launch(token, unseen=token) if likely else None
            tokens = cast(list[int], token.tolist())
            self.timer.phase("verify")

            self.drafting.observe(None, 0, 0)
            tokens = self._commit(tokens, hidden)
            self.stats.count("none", 0, 0, 1)
            self.timer.phase("commit")
            self.timer.end_round(0, synced=True, width=1)
            yield tokens
            self.timer.begin_round(0)

    def _commit(self, tokens: list[int], hidden: Hidden) -> list[int]:
        """Append tokens up to the first that ends the run; return those kept. hidden: a row for
        the position before each."""
        before = self.text.length
        tokens = self.text.commit(tokens)
        self.sampler.commit(tokens)
        self.drafting.extend(tokens, {tap: rows[: len(tokens)] for tap, rows in hidden.items()})
        if before // GIVE_BACK < self.text.length // GIVE_BACK:
            mx.clear_cache()
        return tokens
