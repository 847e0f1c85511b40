"""The one loop for all drafters: propose → verify → accept → rollback → commit.

Invariant (DESIGN §4.2): outside a round the target's cache covers exactly the committed
tokens but the last, the pending token; at every end, an interrupt too, that holds again.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import mlx.core as mx

from llm_specdec.constraints import masks
from llm_specdec.engine.drafter import Drafter, Hidden, Proposal
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Policy
from llm_specdec.engine.request import Request, RunStats
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling import accept, logits_processors
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.logits_processors import History
from llm_specdec.engine.sampling.randomness import Purpose, key
from llm_specdec.engine.states import Entry, Prefixes
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target

PREFILL_STEP = 2048  # tokens a chunk, as mlx-lm's generate_step


@dataclass(frozen=True)
class Step:
    """A plain pass under way: the hidden states it read, the logits (1, vocab) it gives and the
    token (1,) drawn from them; None where a constraint has yet to see the one before."""

    hidden: Hidden
    logits: mx.array
    token: mx.array | None


class Run:
    """Decodes one request; iterate `tokens()` once, then read `stats`, `cached` and `entries()`.

    lookup: proposes in the drafter's place where it has something better, as `policy` judges.
    """

    def __init__(
        self,
        target: Target,
        cache: RollbackCache,
        drafter: Drafter | None,
        policy: Policy,
        request: Request,
        timer: PhaseTimer,
        lookup: Drafter | None = None,
        prefix_cache: Prefixes | None = None,
    ) -> None:
        self.target, self.cache, self.drafter = target, cache, drafter
        self.drafters = [found for found in (drafter, lookup) if found is not None]
        self.policy, self.request, self.timer = policy, request, timer
        self.prefix_cache = prefix_cache
        self.taps: Taps | None = None
        self.stats = RunStats()
        self.history = History(request.prompt, target.vocab_size)
        self.cached = 0  # prompt tokens whose states came from the prefix cache
        self._told = 0  # committed tokens that the drafters know; 0: not known, see `_drafting`
        self._checkpoints: list[Entry] = []
        self._failed = False
        self._finished = False

    @property
    def length(self) -> int:
        """Committed tokens, prompt and completion."""
        return len(self.request.prompt) + len(self.stats.completion)

    def tokens(self) -> Iterator[list[int]]:
        """Yield the tokens of each round as they are committed; none for a part of the prompt."""
        self.taps = Taps(self.target.model, self.drafter.taps if self.drafter else ())
        try:
            self._restore()
            yield from self._prefill()
            while not self._finished:
                drafter, length = self._next_draft()
                if drafter is None:
                    yield from self._plain()
                else:
                    yield self._round(drafter, length)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            self._failed = True
            raise
        finally:
            self.cache.rollback(min(self.cache.length, self.length - 1))
            self.taps.remove()
            self.timer.finish()

    # Prefill

    def _restore(self) -> None:
        """Begin with the longest beginning of the prompt whose states are kept."""
        prompt = self.request.prompt
        self.timer.add("prefill")  # what came before
        found = self.prefix_cache.longest(prompt) if self.prefix_cache else None
        if found is None:
            with self._drafting(tells=1):
                for drafter in self.drafters:
                    drafter.start(prompt[0])
            return
        self.cache.load_state(found.entry.target, found.length)
        with self._drafting(tells=found.length + 1):
            for drafter in self.drafters:
                kept = found.entry.drafter if drafter is self.drafter else []
                drafter.load_state(kept, prompt[: found.length + 1])
        mx.eval(self.cache.arrays(), self._drafter_state())
        self.cached = found.length
        self.timer.add("restore")

    def _prefill(self) -> Iterator[list[int]]:
        """Read the prompt, a chunk a step, and draw the first token, so that TTFT never hides
        draft tokens."""
        prompt, start = self.request.prompt, self.cache.length
        boundaries = self._boundaries()
        # The last token goes alone: only its row needs the output matrix.
        stops = [*boundaries, len(prompt) - 1, len(prompt)]
        while start < len(prompt):
            stop = min(start + PREFILL_STEP, next(stop for stop in stops if stop > start))
            logits = self.target.forward(mx.array(list(prompt[start:stop])), self.cache)
            hidden = self._hidden()
            if stop < len(prompt):
                self._extend(prompt[start + 1 : stop + 1], hidden)
                mx.eval(self.cache.arrays(), self._drafter_state())
                if stop in boundaries:
                    self._checkpoints.append(self._entry(prompt[: stop + 1]))
                mx.clear_cache()
                yield []
            start = stop
        tokens = self._commit(cast(list[int], self._draw(logits[-1:]).tolist()))
        self._extend(tokens, hidden)
        self.timer.add("prefill")
        self.timer.first_token()
        yield tokens

    # What the prefix cache keeps

    def entries(self) -> list[Entry]:
        """The states worth keeping, once the run has ended: those at boundaries of the prompt
        where the end's may not be cut, and the end's. None of a run that failed."""
        if self._failed:
            return []
        tokens = [*self.request.prompt, *self.stats.completion][: self._told]
        if not self.cache.can_rollback(len(tokens) - 1):  # an interrupt came at a bad moment
            return self._checkpoints
        self.cache.rollback(len(tokens) - 1)
        return [*self._checkpoints, self._entry(tokens)]

    def _boundaries(self) -> list[int]:
        """Lengths at which prefill stops and keeps the state, far enough apart to be worth it;
        none where the end's state will serve all shorter ones."""
        prompt = self.request.prompt
        if self.prefix_cache is None or self._trims(len(prompt) + self.request.max_tokens):
            return []
        found = [self.cached]
        for shared in sorted((*self.request.boundaries(), len(prompt))):
            length = shared - 1  # an entry's tokens are one more than its positions
            if found[-1] + self.prefix_cache.least <= length < len(prompt):
                found.append(length)
        return found[1:]

    def _entry(self, tokens: Sequence[int]) -> Entry:
        """The states now, after all of `tokens` but the last, as copies of exact length."""
        target = self.cache.state()
        drafter = [mx.contiguous(array) for array in self._drafter_state()]
        mx.eval(target, drafter)
        return Entry(tuple(tokens), target, drafter, exact=not self._trims(len(tokens) - 1))

    def _trims(self, length: int) -> bool:
        drafter = self.drafter
        return self.cache.trims(length) and (drafter is None or drafter.trims(length))

    @contextlib.contextmanager
    def _drafting(self, tells: int = 0) -> Iterator[None]:
        """Around calls that change a drafter: what one knows that was interrupted in the midst
        of them is not known. `tells`: committed tokens it learns."""
        told, self._told = self._told, 0
        yield
        self._told = told + tells

    # Rounds with a draft

    def _round(self, drafter: Drafter, length: int) -> list[int]:
        source = drafter.source
        synced = self.timer.begin_round(length)
        with self._drafting():
            draw = DraftSampler(self.history, self.request, self.length)
            proposal = drafter.propose(length, draw)
        if synced:
            mx.eval(proposal.tokens, proposal.probs)
        else:
            mx.async_eval(proposal.tokens)  # the device drafts while the verify pass is built
        self.timer.phase("draft")

        before = self.length
        pending = mx.array([self._pending], dtype=mx.int32)
        logits = self.target.forward(mx.concatenate([pending, proposal.tokens]), self.cache)
        tokens, accepted = self._judge(logits, proposal).fetch()
        self.timer.phase("verify")

        tokens = self._commit(tokens)
        self.cache.rollback(self.length - 1)
        if synced:
            mx.eval(self.cache.arrays())
        self.timer.phase("replay")

        hidden = {tap: rows[: self.length - before] for tap, rows in self._hidden().items()}
        self._extend(tokens, hidden)
        self.stats.count(source, len(proposal), min(accepted, len(tokens)))
        self.policy.observe(source, len(proposal), accepted)
        self.timer.phase("commit")
        self.timer.end_round(length, synced)
        return tokens

    def _next_draft(self) -> tuple[Drafter | None, int]:
        """Who drafts next and how many tokens, never more than may still be committed; None
        where the next token is decoded without a draft."""
        ready = {drafter.source: drafter for drafter in self.drafters if drafter.ready()}
        left = self.request.max_tokens - len(self.stats.completion) - 1
        if left <= 0 or not ready:
            return None, 0
        source, length = self.policy.pick(list(ready), self.length)
        drafter = ready[source]
        length = min(length, left, drafter.max_draft or left, self.cache.max_draft)
        return (drafter, length) if length else (None, 0)

    def _judge(self, logits: mx.array, proposal: Proposal) -> accept.Verdict:
        """Rows (k + 1, vocab) after a pass over pending + draft tokens → what is kept."""
        sampling, seed = self.request.sampling, self.request.seed
        rows = logits_processors.penalise(logits, self.history, proposal.tokens, sampling)
        rows = self._constrained(rows, proposal.tokens)
        if sampling.greedy:
            return accept.greedy(rows, proposal.tokens)
        probs = logits_processors.distribution(rows, sampling)
        return accept.sampled(
            probs,
            proposal,
            key(seed, self.length, Purpose.ACCEPT),
            key(seed, self.length, Purpose.TARGET),
        )

    def _constrained(self, rows: mx.array, drafts: mx.array) -> mx.array:
        """Rows (k + 1, vocab) without the tokens that are not allowed after the drafts (k,)."""
        if not self.request.constraints:
            return rows
        mx.async_eval(rows)  # the device verifies while the host finds the masks
        bits = masks.rows(self.request.constraints, cast(list[int], drafts.tolist()))
        return rows if bits is None else logits_processors.forbid(rows, bits)

    # Rounds without a draft

    def _plain(self) -> Iterator[list[int]]:
        """Decode one token a round for as long as no draft is asked for. The pass over a token
        is launched before the host has seen it, so the device never waits for the host."""
        self.timer.begin_round(0)
        step: Step | None = self._step(mx.array([self._pending], dtype=mx.int32), unseen=0)
        while step and not self._finished:
            token, hidden = step.token, step.hidden
            if token is None:
                token = self._draw(step.logits)
                mx.async_eval(token)  # apart, or it would be there only after the next pass
            step = self._step(token, unseen=1) if self._goes_on() else None
            tokens = self._commit(cast(list[int], token.tolist()))
            self.timer.phase("verify")
            if self.drafter:
                self.policy.observe(self.drafter.source, 0, 0)
            self._extend(tokens, hidden)
            self.stats.count("none", 0, 0)
            self.timer.phase("commit")
            self.timer.end_round(0, synced=True)
            yield tokens
            self.timer.begin_round(0)

    def _goes_on(self) -> bool:
        """Whether a further plain step is likely wanted after the one under way."""
        left = self.request.max_tokens - len(self.stats.completion)
        return left > 1 and self._next_draft()[0] is None

    def _step(self, token: mx.array, unseen: int) -> Step:
        """Launch one pass over `token` (1,), which is the `unseen`th not yet committed, and
        the draw of the next one where that can be done blindly."""
        logits = self.target.forward(token, self.cache)
        drawn = None if self.request.constraints else self._draw(logits, token[:unseen])
        mx.async_eval(logits if drawn is None else drawn)
        return Step(self._hidden(), logits, drawn)

    def _draw(self, logits: mx.array, unseen: mx.array | None = None) -> mx.array:
        """The token (1,) that follows the committed ones and `unseen` (n,) tokens that are not
        committed yet, from its logits (1, vocab)."""
        unseen = mx.zeros((0,), dtype=mx.int32) if unseen is None else unseen
        n, sampling = unseen.size, self.request.sampling
        rows = logits_processors.penalise(logits, self.history, unseen, sampling, first=n)
        rows = self._constrained(rows, unseen)
        if sampling.greedy:
            return mx.argmax(rows, axis=-1).astype(mx.int32)
        probs = logits_processors.distribution(rows, sampling)
        place = key(self.request.seed, self.length + n, Purpose.TARGET)
        return accept.draw(probs[0], place)[None]

    # Committing

    @property
    def _pending(self) -> int:
        completion = self.stats.completion
        return completion[-1] if completion else self.request.prompt[-1]

    def _commit(self, tokens: list[int]) -> list[int]:
        """Append tokens up to the first that ends the run; return those kept."""
        kept = []
        for token in tokens:
            kept.append(token)
            if token in self.request.eos or self.request.ends_at(token):
                self._finish("stop")
            elif len(self.stats.completion) + len(kept) >= self.request.max_tokens:
                self._finish("length")
            if self._finished:
                break
        self.stats.completion += kept
        if self.request.sampling.penalises:
            self.history.commit(kept)
        for constraint in self.request.constraints:
            constraint.commit(kept)
        return kept

    def _finish(self, reason: Literal["stop", "length"]) -> None:
        self._finished = True
        self.stats.finish_reason = reason

    def _extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        with self._drafting(tells=len(next_tokens)):
            for drafter in self.drafters:
                drafter.extend(next_tokens, hidden)

    def _hidden(self) -> Hidden:
        """Hidden states of the last pass that the drafter reads."""
        return self.taps.take() if self.taps else {}

    def _drafter_state(self) -> list[mx.array]:
        with self._drafting():
            return self.drafter.state() if self.drafter else []
