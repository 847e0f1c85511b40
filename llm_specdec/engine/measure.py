"""Measure what verify passes and drafts cost on this machine, in a few seconds."""

from collections.abc import Callable
from typing import Protocol

import mlx.core as mx

from llm_specdec.engine.costs import CONTEXTS, Costs, timed
from llm_specdec.engine.drafters.base import Drafter, Hidden
from llm_specdec.engine.drawing import Drawing
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import TargetCache
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target
from llm_specdec.engine.transforms import History

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 16)
LENGTHS = (1, 2, 4, 7)
SEED_TOKENS = 16  # really read; the rest of a long context is made by repeating their state


class Loaded(Protocol):
    target: Target
    drafter: Drafter | None


def measure(loaded: Loaded, drafts: int, longest: int, kv_bits: int | None = None) -> Costs:
    """Time drafts of up to `drafts` tokens, and greedy verify passes over up to `longest` draft
    tokens (lookup may propose more than the drafter), at a short and a long context.

    Timings are of this moment: on a busy machine they are worth repeating.
    """
    contexts = (CONTEXTS[0], min(CONTEXTS[1], max(loaded.target.context - 64, CONTEXTS[0] + 1)))
    passes = [_passes(loaded, drafts, longest, context, kv_bits) for context in contexts]
    verify = (timed(passes[0][0]), timed(passes[1][0]))
    drafter, draft = loaded.drafter, {}
    if drafter is not None and passes[0][1]:
        draft[drafter.kind] = (timed(passes[0][1]), timed(passes[1][1]))
    return Costs(contexts, verify, draft)


Passes = dict[int, Callable[[], object]]


def _passes(
    loaded: Loaded, most: int, longest: int, context: int, kv_bits: int | None
) -> tuple[Passes, Passes]:
    """Verify passes by width and drafts by length, after `context` tokens."""
    target, drafter = loaded.target, loaded.drafter
    cache = _filled(target, context, kv_bits, longest)

    def verify(width: int) -> Callable[[], object]:
        tokens = mx.arange(width) % target.vocab_size

        def run() -> object:
            logits = target.forward(tokens, cache)
            found = mx.argmax(logits, axis=-1)
            mx.eval(found)
            cache.rollback(context)
            return cache.arrays()  # a recurrent layer's way back is part of the price

        return run

    widths = [w for w in WIDTHS if w <= longest + 1]
    if longest + 1 not in widths:
        widths.append(longest + 1)
    drafts: Passes = {}
    if drafter is not None and drafter.kind != "lookup":
        drafts = _drafts(target, drafter, cache, most, context)
    return {width: verify(width) for width in widths}, drafts


def _drafts(
    target: Target, drafter: Drafter, cache: TargetCache, most: int, context: int
) -> Passes:
    """Each draws a draft and takes in one committed token, as a round does."""
    rows = _hidden_rows(target, drafter, cache, context)
    tokens = [i % SEED_TOKENS for i in range(context + 1)]
    drafter.start(tokens[0])
    drafter.extend(tokens[1:], {tap: _repeated(r, context) for tap, r in rows.items()})
    mx.eval(drafter.state())
    one = {tap: r[:1] for tap, r in rows.items()}

    def draft(length: int) -> Callable[[], object]:
        def run() -> object:
            request = Request(prompt=[0], max_tokens=1)
            proposal = drafter.propose(length, Drawing(History([0], 1), request, 0))
            mx.eval(proposal.tokens)
            drafter.extend([1], one)  # read together with the next draft
            return proposal.tokens

        return run

    return {k: draft(k) for k in {*[k for k in LENGTHS if k < most], most}}


def _hidden_rows(target: Target, drafter: Drafter, cache: TargetCache, context: int) -> Hidden:
    """Hidden states of a few tokens for every tap of the drafter."""
    with Taps(target.model, drafter.taps) as taps:
        mx.eval(target.forward(mx.arange(SEED_TOKENS) % target.vocab_size, cache))
        rows = taps.take()
    mx.eval(rows)
    cache.rollback(context)
    return rows


def _filled(target: Target, context: int, kv_bits: int | None, longest: int) -> TargetCache:
    """A cache that covers `context` tokens: the state of a few, repeated."""
    seed = TargetCache(target.model, kv_bits=kv_bits)
    mx.eval(target.forward(mx.arange(SEED_TOKENS) % target.vocab_size, seed))
    cache = TargetCache(target.model, kv_bits=kv_bits, max_draft=max(longest, SEED_TOKENS))
    cache.load_state(seed.stretched(context), context)
    mx.eval(cache.arrays())
    return cache


def _repeated(rows: mx.array, n: int) -> mx.array:
    return mx.concatenate([rows] * -(-n // rows.shape[0]), axis=0)[:n]
