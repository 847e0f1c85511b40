"""What a drafter borrows of the target."""

from typing import Protocol

import mlx.core as mx


class Lender(Protocol):
    """The target's embedding and output matrix, which a drafter may share."""

    @property
    def vocab_size(self) -> int: ...

    def embed(self, tokens: mx.array) -> mx.array: ...  # (n,) → (n, hidden)

    def head(self, hidden: mx.array, rows: int | None = None) -> mx.array:
        """Logits (n, vocab) of hidden states (n, hidden), or of the first `rows` tokens."""
        ...
