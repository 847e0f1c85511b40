"""Which draft tokens the target keeps, and the token it adds.

Greedy: a draft token stands where it equals the target's argmax. Sampled: rejection sampling
with residual (Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318), so that the
output has exactly the target's distribution whatever the drafter proposes.

All results stay on the device; `Verdict.fetch` is a round's one synchronisation.
"""

from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from llm_specdec.engine.drafter import Proposal


@dataclass(frozen=True)
class Verdict:
    """tokens (k + 1,) int32: the accepted draft tokens stand first, the target's own token at
    index `accepted`; what follows is meaningless. accepted () int32, 0 to k."""

    tokens: mx.array
    accepted: mx.array

    def fetch(self) -> tuple[list[int], int]:
        """Wait for the device: (accepted draft tokens + the target's own, accepted)."""
        packed = mx.concatenate([self.tokens.astype(mx.int32), self.accepted[None]])
        fetched = cast(list[int], packed.tolist())
        accepted = fetched[-1]
        return fetched[: accepted + 1], accepted


def greedy(rows: mx.array, drafts: mx.array) -> Verdict:
    """rows (k + 1, vocab) target logits after transforms; drafts (k,) int32."""
    own = mx.argmax(rows, axis=-1).astype(mx.int32)
    return Verdict(own, _run_length(own[:-1] == drafts))


def sampled(probs: mx.array, proposal: Proposal, accept_key: mx.array, key: mx.array) -> Verdict:
    """Rejection sampling.

    Shapes: probs (k + 1, vocab) float32, the target's distribution p of each row; the
    proposal's probs (k, vocab) are q, or None where each draft token was certain.
    Accepts x with probability min(1, p(x) / q(x)); at the first rejection the token is drawn
    from max(p - q, 0) normalised, after k acceptances from the last row.
    """
    drafts, k = proposal.tokens.astype(mx.int32), len(proposal)
    if k == 0:
        return Verdict(draw(probs[0], key)[None], mx.array(0))
    target = mx.take_along_axis(probs[:k], drafts[:, None], axis=1)[:, 0]
    if proposal.probs is None:
        drafted = mx.ones((k,), dtype=mx.float32)
    else:
        drafted = mx.take_along_axis(proposal.probs, drafts[:, None], axis=1)[:, 0]
    coins = mx.random.uniform(shape=(k,), key=accept_key)
    accepted = _run_length(coins * drafted < target)
    own = draw(_residual(probs, proposal, accepted), key)
    padded = mx.concatenate([drafts, own[None]])
    return Verdict(mx.where(mx.arange(k + 1) == accepted, own, padded), accepted)


def draw(probs: mx.array, key: mx.array) -> mx.array:
    """One token from a distribution (vocab,), which need not be normalised."""
    return mx.random.categorical(mx.log(probs), key=key).astype(mx.int32)


def _residual(probs: mx.array, proposal: Proposal, accepted: mx.array) -> mx.array:
    """What is left of the target's row `accepted` once the draft had its chance, (vocab,)."""
    k = len(proposal)
    row = probs[accepted]
    at = mx.minimum(accepted, k - 1)
    if proposal.probs is None:
        certain = mx.arange(row.shape[0]) == proposal.tokens[at]
        left = mx.where(certain, 0.0, row)
    else:
        left = mx.maximum(row - proposal.probs[at], 0.0)
    # Where p and q agree to the last bit nothing is left: then p itself is the residual's limit.
    usable = (accepted < k) & (left.sum() > 0)
    return mx.where(usable, left, row)


def _run_length(kept: mx.array) -> mx.array:
    """How many leading entries are true, () int32."""
    return mx.cumprod(kept.astype(mx.int32), axis=0).sum().astype(mx.int32)
