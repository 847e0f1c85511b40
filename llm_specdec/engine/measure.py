"""Measure what verify passes and drafts cost on this machine, in a few seconds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import mlx.core as mx

from llm_specdec.engine.costs import CONTEXTS, FARTHEST, Costs, Curve, timed
from llm_specdec.engine.drafter import Drafter, Hidden
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target

WIDTHS = (2, 3, 4, 5, 8, 16)
FAR_WIDTHS = (2, 4, 16)  # on the CPU: attention to a long context grows evenly with the width
LENGTHS = (1, 2, 4, 7)
PLAIN_STEPS = 4  # timed together, behind one more
SEED_TOKENS = 16  # really read; the rest of a long context is made by repeating their state


class Loaded(Protocol):
    target: Target
    drafter: Drafter | None


def measure(
    loaded: Loaded,
    drafts: int,
    longest: int,
    kv_bits: int | None = None,
    known: Mapping[str, Curve] | None = None,
) -> Iterator[tuple[str, Curve]]:
    """Time drafts of up to `drafts` tokens (0: they cost nothing), and greedy verify passes over
    up to `longest` draft tokens (a helper may propose more than the drafter), at each of
    `contexts`. Yields the name and the curve of each part as it is measured; `known` parts
    are left out. `costs` puts them together.

    Timings are of this moment: on a busy machine they are worth repeating.
    """
    target, drafter = loaded.target, loaded.drafter
    for place, context in enumerate(contexts(target)):
        wanted = [part for part in names(loaded, drafts) if part.endswith(f" {place}")]
        if not (missing := [part for part in wanted if part not in (known or {})]):
            continue
        try:
            cache = _filled(target, context, kv_bits, longest)
        except RuntimeError:  # mlx: out of memory
            if place < 2:
                raise
            yield from ((part, {}) for part in missing)
            continue
        few = place and not _on_gpu()
        widths = [width for width in (FAR_WIDTHS if few else WIDTHS) if width <= longest]
        for part in missing:
            if part == f"verify {place}":
                yield part, _verify_curve(target, cache, context, [*widths, longest + 1])
            elif drafter is not None:
                yield part, _draft_curve(target, drafter, cache, context, drafts)


def contexts(target: Target) -> tuple[int, ...]:
    """A short and a long context, in tokens, of a target that may know no long ones; on a GPU,
    where attention takes other kernels as contexts grow, a longer one too."""
    most = target.positions.context - 64
    found = (CONTEXTS[0], min(CONTEXTS[1], max(most, CONTEXTS[0] + 1)))
    return (*found, FARTHEST) if _on_gpu() and most >= FARTHEST else found


def _on_gpu() -> bool:
    return bool(mx.default_device().type == mx.DeviceType.gpu)


def names(loaded: Loaded, drafts: int) -> list[str]:
    """Of all parts that `measure` yields."""
    kinds = ["verify", "draft"] if loaded.drafter is not None and drafts > 0 else ["verify"]
    return [f"{kind} {place}" for place in range(len(contexts(loaded.target))) for kind in kinds]


def costs(loaded: Loaded, parts: Mapping[str, Curve]) -> Costs:
    """What all parts of `measure` come to; contexts that memory had no room for are left out.
    Raises KeyError where a part is missing."""
    drafter = loaded.drafter
    drafts = drafter is not None and "draft 0" in parts
    kinds = ["verify", "draft"] if drafts else ["verify"]
    there = [
        (place, context)
        for place, context in enumerate(contexts(loaded.target))
        if all(parts[f"{kind} {place}"] for kind in kinds)
    ]

    def curves(kind: str) -> tuple[Curve, ...]:
        return tuple(parts[f"{kind} {place}"] for place, _ in there)

    return Costs(
        tuple(context for _, context in there),
        curves("verify"),
        {drafter.kind: curves("draft")} if drafter and drafts else {},
    )


def _passes(
    target: Target, cache: RollbackCache, context: int, width: int, n: int = 1
) -> Callable[[], object]:
    """`n` passes over `width` tokens, each launched behind the one before."""
    tokens = mx.arange(width) % target.vocab_size

    def run() -> object:
        argmaxes = []
        for _ in range(n):
            argmaxes.append(mx.argmax(target.forward(tokens, cache), axis=-1))
            mx.async_eval(argmaxes[-1])
            cache.rollback(context)
        return argmaxes, cache.arrays()  # a recurrent layer's way back is part of the price

    return run


def _verify_curve(
    target: Target, cache: RollbackCache, context: int, widths: Sequence[int]
) -> Curve:
    """Seconds by width. Plain steps are timed apart: a BLAS whose threads still wait for more
    of a wider pass slows them."""
    wider = timed({width: _passes(target, cache, context, width) for width in widths})
    return {1: _plain_step(target, cache, context), **wider}


def _plain_step(target: Target, cache: RollbackCache, context: int) -> float:
    """Seconds of one of many plain steps in a row. The first of them also waits until the host
    has built its graph, as later ones do not: it is measured alone and taken off."""
    more = 1 + PLAIN_STEPS
    seconds = timed({n: _passes(target, cache, context, 1, n) for n in (1, more)})
    return max(seconds[more] - seconds[1], 0.0) / PLAIN_STEPS or seconds[more] / more


def _draft_curve(
    target: Target, drafter: Drafter, cache: RollbackCache, context: int, most: int
) -> Curve:
    """Seconds by length, each draft after a pass of the target, which leaves nothing of the
    drafter in the processor's caches."""
    drafts = _drafts(target, drafter, cache, most, context)
    return timed(drafts, before=_passes(target, cache, context, 1))


def _drafts(
    target: Target, drafter: Drafter, cache: RollbackCache, most: int, context: int
) -> dict[int, Callable[[], object]]:
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
            proposal = drafter.propose(length, DraftSampler(Sampler(request, 1), cache))
            mx.eval(proposal.tokens)
            drafter.extend([1], one)  # read together with the next draft
            return proposal.tokens

        return run

    return {k: draft(k) for k in {*[k for k in LENGTHS if k < most], most}}


def _hidden_rows(target: Target, drafter: Drafter, cache: RollbackCache, context: int) -> Hidden:
    """Hidden states of a few tokens for every tap of the drafter."""
    with Taps(target.model, drafter.taps) as taps:
        mx.eval(target.forward(mx.arange(SEED_TOKENS) % target.vocab_size, cache))
        rows = taps.take()
    mx.eval(rows)
    cache.rollback(context)
    return rows


def _filled(target: Target, context: int, kv_bits: int | None, longest: int) -> RollbackCache:
    """A cache that covers `context` tokens: the state of a few, repeated."""
    seed = RollbackCache(target.model, kv_bits=kv_bits)
    mx.eval(target.forward(mx.arange(SEED_TOKENS) % target.vocab_size, seed))
    cache = RollbackCache(target.model, kv_bits=kv_bits, max_draft=max(longest, SEED_TOKENS))
    cache.load_state(seed.stretched(context), context)
    mx.eval(cache.arrays())
    return cache


def _repeated(rows: mx.array, n: int) -> mx.array:
    return mx.concatenate([rows] * -(-n // rows.shape[0]), axis=0)[:n]
