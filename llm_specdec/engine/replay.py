"""Whether a token is what the target gives at the width it was asked with.

In 16 bits a pass over several rows may round otherwise than a pass over one, so a drafted text
and a plain one may part at a near-tie, and each is the target's own. No fixed
threshold tells that from a fault. A replay does: it reads the same tokens again in passes of the
same widths, but with no drafter, no acceptance and no cache that anything was left in. A token
that a replay gives is exact at its width; one that it does not give came from a fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from llm_specdec.engine.prefill import chunk_size
from llm_specdec.engine.request import Round
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import History, Sampling, penalise
from llm_specdec.engine.target import Target


@dataclass(frozen=True)
class Written:
    """A greedy completion and the rounds that made it (`RunStats.passes`)."""

    tokens: Sequence[int]
    rounds: Sequence[Round]


@dataclass(frozen=True)
class Difference:
    """Where two completions part. gap: by how much, in logits, the target's best token there
    beats its second best, in the first one's passes. exact: each has the token that its own
    passes give, so that their widths alone made the difference."""

    position: int
    gap: float
    exact: bool


def compare(
    target: Target,
    prompt: Sequence[int],
    one: Written,
    other: Written,
    sampling: Sampling,
    kv_bits: int | None = None,
) -> Difference | None:
    """The first difference of two completions of one prompt; None where there is none.
    One ending before the other is a difference, and never an exact one."""
    pairs = enumerate(zip(one.tokens, other.tokens, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), None)
    if at is None:
        shorter = min(len(one.tokens), len(other.tokens))
        same = len(one.tokens) == len(other.tokens)
        return None if same else Difference(shorter, 0.0, exact=False)
    scores = [score(target, prompt, text, at, sampling, kv_bits) for text in (one, other)]
    second, first = cast(list[float], mx.sort(scores[0])[-2:].tolist())
    # In 16 bits two logits are often equal, and another program may take the other of them.
    own = bool((scores[0][one.tokens[at]] == mx.max(scores[0])).item())
    exact = own and cast(int, mx.argmax(scores[1]).item()) == other.tokens[at]
    return Difference(at, first - second, exact)


def score(
    target: Target,
    prompt: Sequence[int],
    text: Written,
    at: int,
    sampling: Sampling,
    kv_bits: int | None = None,
) -> mx.array:
    """Logits (vocab,) float32, processed, from which token `at` was chosen: read again, in
    passes of the same widths."""
    longest = max((drafted for drafted, _ in text.rounds), default=0)
    cache = RollbackCache(target.model, kv_bits=kv_bits, max_draft=max(longest, 1))
    try:
        logits, first, end = _prefilled(target, prompt, cache), 0, 1
        for drafted, committed in text.rounds:
            if at < end:
                break
            read = [text.tokens[end - 1], *_padded(text.tokens[end:], drafted)]
            length = cache.length
            logits = target.forward(mx.array(read), cache)
            cache.rollback(length + committed)
            mx.eval(logits, cache.arrays())
            first, end = end, end + committed
    finally:
        cache.close()
    history = History(prompt, target.vocab_size)
    history.commit(text.tokens[:at])
    row, none = logits[at - first][None], mx.zeros((0,), dtype=mx.int32)
    return penalise(row, history, none, sampling)[0].astype(mx.float32)


def _prefilled(target: Target, prompt: Sequence[int], cache: RollbackCache) -> mx.array:
    """Logits (1, vocab) after the prompt, read in the chunks of a run."""
    tokens, last, size = mx.array(list(prompt)), len(prompt) - 1, chunk_size()
    for start in range(0, last, size):
        target.forward(tokens[start : min(start + size, last)], cache)
        mx.eval(cache.arrays())
    return target.forward(tokens[last:], cache)


def _padded(tokens: Sequence[int], n: int) -> list[int]:
    """n tokens: what a rejected draft token was does not matter to the rows before it."""
    return [*tokens, *[0] * n][:n]
