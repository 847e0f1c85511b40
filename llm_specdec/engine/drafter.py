"""What a drafter is to the loop. A drafter knows tensors and token ids, nothing of
sampling policy, llm or files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import mlx.core as mx

# A tap names hidden states of the target: the output of decoder layer i (0-based, residual
# included), the states that go into the first layer ("embedding": scaled where the target does
# so), or those that go into the output matrix ("final_norm": after the last norm).
Tap = int | Literal["embedding", "final_norm"]
Hidden = Mapping[Tap, mx.array]  # tap → (n, hidden_size), one row a position


@dataclass(frozen=True)
class Proposal:
    """Draft tokens of one round.

    Shapes: tokens (k,) int32, may be lazy; probs (k, vocab) float32, row i the distribution
    that token i was really drawn from, or None where each token was certain (greedy, lookup).
    """

    tokens: mx.array
    probs: mx.array | None = None

    def __len__(self) -> int:
        return int(self.tokens.shape[0])


class Draw(Protocol):
    """What a run lends to a drafter for one round: its transforms and randomness, and the
    target's cache to read."""

    @property
    def plain(self) -> bool:
        """True where drawing is the argmax of the logits as they are: a drafter may then find
        it without a row over the whole vocabulary."""
        ...

    def one(self, logits: mx.array, drafted: Sequence[mx.array]) -> mx.array:
        """Draw the next draft token from `logits` (vocab,), after `drafted` (scalars) of this
        round. Returns a scalar int32 array; its distribution is kept for `proposal`."""
        ...

    def block(self, logits: mx.array) -> mx.array:
        """Draw k tokens from `logits` (k, vocab), row by row where history matters, at once
        where it does not. Returns (k,) int32."""
        ...

    def proposal(self, tokens: mx.array) -> Proposal:
        """Wrap the tokens drawn since the round began with their distributions."""
        ...

    def keys_and_values(self, layer: int, rows: int | None = None) -> tuple[mx.array, mx.array]:
        """Of the target's layer `layer`, which has a cache of its own: as it attends to them,
        for c[0..L-2], or for the last `rows` of these and at most those that a window holds.
        (1, heads, n, head_dim) each, dense, in order. Views of the live cache: keep none of
        them beyond the round."""
        ...


class Drafter(Protocol):
    """Proposes draft tokens. Is given every committed token, and the target's hidden states.

    Positions: with committed tokens c[0..L-1], c[L-1] is pending. Each row of `extend` carries
    the target's hidden states at the next position p that the drafter lacks, and the token
    c[p+1] that followed. After it the drafter knows c[0..L-1] and hidden states 0..L-2.
    Prefill calls it once a chunk, the loop once a round. Rejected draft tokens never reach it.
    """

    kind: str
    taps: tuple[Tap, ...]
    max_draft: int | None  # longest proposal it can make; None: no limit

    def start(self, token: int) -> None:
        """Forget everything; `token` is c[0]. This or `load_state` comes before all else."""
        ...

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        """Take in committed tokens. Any state kept for draft tokens beyond the committed
        ones but the last is dropped here: own caches cover at most c[0..L-2] afterwards."""
        ...

    @property
    def source(self) -> str:
        """What the next proposal would rest on: `kind`, or a finer name where proposals are
        not equally good; always one of the `sources` of its kind. The policy estimates
        acceptance for each source apart."""
        ...

    def ready(self) -> bool:
        """Whether there is anything to propose; must be cheap, asked once a token."""
        ...

    def propose(self, k: int, draw: Draw) -> Proposal:
        """One to k draft tokens to follow c[L-1]. Lazy: nothing is evaluated here, but what
        a length rests on where the drafter chooses it."""
        ...

    def state(self) -> list[mx.array]:
        """Arrays to evaluate after prefill and to keep in the prefix cache (exact lengths)."""
        ...

    def trims(self, length: int) -> bool:
        """Whether a `state()` of `length` positions can be cut to any shorter length."""
        ...

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        """Restore the `state()` of a drafter that knew exactly `tokens` (c[0..n-1]), or `tokens`
        and more where such a state `trims`. The arrays given are never written to."""
        ...
