"""A grammar as a constraint: llguidance says which tokens may come next.

Source: llguidance's `LLMatcher`, which takes tokens in, copies itself in a microsecond and finds
a mask in some ten.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from llguidance import LLMatcher

from llm_specdec.constraints.forced_completion import JUMP, ForcedCompletion, TokenTable
from llm_specdec.constraints.masks import Bits, only
from llm_specdec.errors import UnsupportedError, UsageError

SPARE = 4  # tokens that a steered text may leave: a shorter ending than the one kept free


def read(tokenizer: Any, vocab_size: int) -> TokenTable:
    """What grammars need of a tokenizer (mlx-lm's TokenizerWrapper); takes about a second for
    100,000 tokens.

    Raises UnsupportedError for a tokenizer that is written in Python.
    """
    plain, ends = tokenizer._tokenizer, list(tokenizer.eos_token_ids)
    plain = getattr(plain, "whole", plain)  # of transformers, which mlx-lm must import first
    from llguidance.hf import from_tokenizer

    try:
        vocabulary = from_tokenizer(plain, n_vocab=max(vocab_size, len(plain)), eos_token=ends)
    except ValueError:
        raise UnsupportedError(
            f"schemas need a tokenizer of the tokenizers library, not {type(plain).__name__}: "
            "leave the schema out"
        ) from None
    return TokenTable(vocabulary, vocab_size)


class GrammarConstraint:
    """Tokens that keep the output a beginning of what the grammar accepts; an end token exactly
    where it is accepted. Near `max_tokens` only what can still be ended in time: see
    `ForcedCompletion`. `left` is how many tokens may still come.

    Raises UsageError where the shortest accepted text that is found has more tokens than that.
    """

    def __init__(
        self,
        grammar: str,
        token_table: TokenTable,
        vocab_size: int,
        eos: Collection[int],
        max_tokens: int,
    ) -> None:
        self._matcher = LLMatcher(token_table.tokenizer, grammar, log_level=0)
        self._closing = ForcedCompletion(token_table)
        self.left, self.eos, self.vocab_size = max_tokens, frozenset(eos), vocab_size
        self._tokens, self._ends = token_table, only(list(eos), vocab_size)
        self._known: dict[tuple[int, ...], Bits | None] = {}  # masks since the last commit
        self.steered = False  # tokens were ruled out that the grammar would have allowed
        self._shortest = len(self._closing.ending(self._matcher) or ())
        self.admit()

    def admit(self, before: int = 0) -> None:
        """Raises UsageError where the shortest text does not fit after `before` tokens."""
        if not self.fits(before):
            thinking = f", and ending the thinking takes {before}" if before else ""
            raise UsageError(
                f"max_tokens {self.left} is too little for this schema: "
                f"its shortest answer has about {self._shortest} tokens{thinking}"
            )

    def fits(self, before: int) -> bool:
        """Whether the shortest text could still follow `before` tokens."""
        return before + self._shortest <= self.left

    @property
    def complete(self) -> bool:
        """Whether the output so far is accepted."""
        return bool(self._matcher.is_accepting())

    @property
    def closed(self) -> bool:
        """Whether it was ended to fit into max_tokens."""
        return self.steered and self.left <= SPARE

    @property
    def reserve(self) -> int:
        """Tokens that should be left when the text begins: a few times the shortest one."""
        return min(4 * self._shortest + 2 * JUMP, max(self.left // 2, self._shortest))

    def spend(self, n: int) -> None:
        """Tokens of the output that stand before the text."""
        self._known.clear()
        self.left -= n

    def allowed(self, drafts: Sequence[int], before: int = 0) -> Bits | None:
        """before: draft tokens that stand before the text."""
        key = (before, *drafts)
        if key not in self._known:
            self._known[key] = self._mask(tuple(drafts), self.left - before - len(drafts))
        return self._known[key]

    def commit(self, tokens: Sequence[int]) -> None:
        self._known.clear()
        self.left -= len(tokens)
        self._closing.commit(tuple(tokens))
        self._matcher.consume_tokens([token for token in tokens if token not in self.eos])

    def _mask(self, drafts: tuple[int, ...], left: int) -> Bits | None:
        matcher = self._matcher
        if drafts:
            matcher = matcher.deep_copy()
            if left < 1 or matcher.try_consume_tokens(list(drafts)) < len(drafts):
                return None  # after the end, or after a token that is not allowed
        text = self._tokens.allowed(matcher)
        bits = self._closing.narrowed(text, matcher, left, drafts)
        if not drafts and not self.steered:
            self.steered = not np.array_equal(bits, text)
        ends = matcher.is_accepting() or not bits.any()  # no way on: better cut than garbage
        return bits | self._ends if ends else bits
