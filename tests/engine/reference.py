"""What a run should sample from, in float64 and from the definitions: no code of ours or of mlx.

Orders: `card` as servers do it (penalties, temperature, top-k, top-p, min-p); `mlx` as mlx-lm's
plain path does it (penalties over 20 tokens, top-p, min-p, top-k, temperature).
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_specdec.engine.sampling.logits_processors import Sampling

Row = NDArray[np.float64]


def penalised(logits: Row, prompt: Sequence[int], output: Sequence[int], s: Sampling) -> Row:
    """The row that follows prompt + output, after bias and penalties."""
    row = logits.astype(np.float64).copy()
    for token, bias in s.logit_bias.items():
        row[token] += bias
    everything = [*prompt, *output]
    if s.penalty_scope == "mlx":
        repeated = counted = everything[-20:]
    else:
        repeated, counted = everything, list(output)
    for token in set(repeated):
        row[token] *= s.repetition_penalty if row[token] < 0 else 1 / s.repetition_penalty
    for token, times in Counter(counted).items():
        row[token] -= s.presence_penalty + s.frequency_penalty * times
    return row


def distribution(row: Row, s: Sampling) -> Row:
    """Probabilities of a penalised row."""
    if s.penalty_scope == "mlx":
        kept = _softmax(row)
        for cut in (_top_p, _min_p, _top_k):
            kept = _renormalised(cut(kept, s))
        return _renormalised(np.where(kept > 0, kept, 0) ** (1 / s.temperature))
    kept = _softmax(row / s.temperature)
    for cut in (_top_k, _top_p, _min_p):
        kept = _renormalised(cut(kept, s))
    return kept


def places(
    logits: Row,
    tokens: Sequence[int],
    prompt: int,
    s: Sampling,
    allowed: NDArray[np.bool_] | None = None,
) -> Row:
    """Each token's place in its exact distribution, after the history that it really had.

    Independent and uniform on (0, 1) if, and only if, every token was drawn from the target's
    distribution. Shapes: logits (n, vocab), row i follows token i; tokens (n,), the first
    `prompt` of them given; allowed (n, vocab), what may follow token i; returns (n - prompt,).
    """
    rng = np.random.default_rng(1)
    found = []
    for i in range(prompt, len(tokens)):
        row = penalised(logits[i - 1], tokens[:prompt], tokens[prompt:i], s)
        if allowed is not None:
            row = np.where(allowed[i - 1], row, -np.inf)
        p = distribution(row, s)
        order = np.argsort(-p)
        before = np.cumsum(p[order]) - p[order]
        at = int(np.flatnonzero(order == tokens[i])[0])
        assert p[order[at]] > 0, f"token {i} is ruled out"
        found.append(before[at] + rng.random() * p[order[at]])
    return np.array(found)


def _softmax(row: Row) -> Row:
    return _renormalised(np.exp(row - row.max()))


def _renormalised(weights: Row) -> Row:
    total: Row = weights / weights.sum()
    return total


def _top_k(p: Row, s: Sampling) -> Row:
    if not s.top_k:
        return p
    kept = np.zeros_like(p)
    best = np.argsort(-p)[: s.top_k]
    kept[best] = p[best]
    return kept


def _top_p(p: Row, s: Sampling) -> Row:
    """The fewest most probable tokens whose mass reaches top_p."""
    if not 0 < s.top_p < 1:
        return p
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]
    kept = np.zeros_like(p)
    best = order[before < s.top_p]
    kept[best] = p[best]
    return kept


def _min_p(p: Row, s: Sampling) -> Row:
    return np.where(p >= s.min_p * p.max(), p, 0)
