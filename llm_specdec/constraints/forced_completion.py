"""Ending a text in time: a short ending from any state of a grammar, and steering towards it.

llguidance does not tell how near an end is, so one is looked for: the bytes that a grammar
forces, and where there is a choice the byte that closes most. What is found is a real ending,
if not always the shortest; while it fits into the tokens left, the text can be ended.
"""

from collections import Counter

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from llm_specdec.constraints.masks import Bits, only, tokens_of

ALNUM = bytes(c for c in range(0x7F) if chr(c).isalnum())
SIGNS = bytes(c for c in range(0x20, 0x7F) if c not in ALNUM + b'}],:"\\-')
# What ends a text soonest, first: outside strings, inside them, and where that leads nowhere.
OUTSIDE = b"}],:" + ALNUM[:10] + b'"-' + ALNUM[10:] + SIGNS
INSIDE = b'"' + ALNUM + b"-}],:" + SIGNS
VARIED = b'}]"-.@:/_,' + INSIDE
CONTENT = set(INSIDE) - set(b'"{}[],:+-.0123456789eEtfn ')  # never stands outside of strings
JUMP = 24  # tokens that one token may add to the ending, as one that opens an object does
TRIED = 32  # tokens that are tried one by one where room is short
LONGEST = 1024  # tokens of an ending that is looked for
REPEATED = 99  # times that one byte is tried without variety


class TokenTable:
    """A tokenizer as llguidance sees it, and what endings need to know of it. vocab_size: of
    the model, whose logits a mask covers."""

    def __init__(self, tokenizer: LLTokenizer, vocab_size: int) -> None:
        self.tokenizer = tokenizer
        self.bytes = np.full(128, -1)  # ASCII byte → the token that is this byte alone
        plain, content = [], []
        for token in range(min(vocab_size, tokenizer.vocab_size)):
            if tokenizer.is_special_token(token):
                continue
            plain.append(token)
            text = tokenizer.decode_bytes([token])
            if len(text) == 1 and text.isascii():
                self.bytes[text[0]] = token
            if _is_content(text):
                content.append(token)
        self._plain = only(plain, vocab_size)
        self.content = only(content, vocab_size)  # what a string may hold that may hold anything

    def allowed(self, matcher: LLMatcher) -> Bits:
        """The tokens of text that may come next; no end tokens."""
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint32)
        return bits[: self._plain.size] & self._plain


def _is_content(text: bytes) -> bool:
    try:
        return bool(text) and text.decode().isprintable() and not set(b'"\\') & set(text)
    except UnicodeDecodeError:
        return False


class ForcedCompletion:
    """Leaves a mask as it is while there is room, and then only what can still be ended.

    Room is measured anew only where tokens that add JUMP each could have used it up: seldom
    while much is left. A schema in which one token adds more may be cut after all.
    """

    def __init__(self, token_table: TokenTable) -> None:
        self._tokens = token_table
        self._free = 0  # tokens after the committed ones that need no measuring
        self._known: dict[tuple[int, ...], list[int]] = {}  # endings by the tokens before them

    def commit(self, tokens: tuple[int, ...]) -> None:
        self._free -= len(tokens)
        n, known = len(tokens), self._known.items()
        self._known = {after[n:]: end for after, end in known if after[:n] == tokens}

    def narrowed(
        self, bits: Bits, matcher: LLMatcher, left: int, drafts: tuple[int, ...] = ()
    ) -> Bits:
        """The tokens `bits` that `matcher` allows once it has read the drafts, without those
        after which the text could not be ended within `left` tokens, themselves included."""
        if len(drafts) < self._free:
            return bits
        ending = self._known.get(drafts) or self.ending(matcher, left)
        if ending is None:
            return bits
        free = (left - len(ending)) // (JUMP + 1)
        if not drafts:
            self._free = free
        return bits if free else self._safe(bits, matcher, left, drafts, ending)

    def _safe(
        self,
        bits: Bits,
        matcher: LLMatcher,
        left: int,
        drafts: tuple[int, ...],
        ending: list[int],
    ) -> Bits:
        untried, content = np.zeros_like(bits), self._tokens.content
        if left - 1 > len(ending) and np.array_equal(bits & content, content):
            untried |= content  # a string that may hold anything: the end stays as near
        ends = dict.fromkeys(ending[:1], ending[1:])
        for token in tokens_of(bits & ~untried)[:TRIED]:
            after = matcher.deep_copy()
            if after.consume_token(token):
                rest = self.ending(after, left - 1)
                if rest is not None:
                    ends.setdefault(token, rest)
        self._known |= {(*drafts, token): rest for token, rest in ends.items()}
        return (untried | only(list(ends), 32 * bits.size)) & bits

    def ending(self, matcher: LLMatcher, longest: int = LONGEST) -> list[int] | None:
        """Tokens of a short way to an accepted text; None where none was found of at most
        `longest` tokens."""
        for varied in (False, True):
            tokens = self._walk(matcher, longest, varied)
            if tokens is not None and len(joined := self._joined(matcher, tokens)) <= longest:
                return joined
        return None

    def _walk(self, matcher: LLMatcher, longest: int, varied: bool) -> list[int] | None:
        """With `varied` bytes take turns, so that a pattern is not filled with one for ever."""
        state, tokens, used = matcher.deep_copy(), list[int](), Counter[int]()
        while not state.is_accepting():
            forced = state.compute_ff_bytes()
            step = self._tokens.tokenizer.tokenize_bytes(forced) if forced else []
            if not step or state.validate_tokens(step) < len(step):
                step = self._closer(state, used if varied else None)
                used.update(step)
            tokens += step
            lost = len(tokens) > 2 * longest or (
                not varied and max(used.values(), default=0) > REPEATED
            )
            if lost or not step or not state.consume_tokens(step):
                return None
        return tokens

    def _closer(self, state: LLMatcher, used: Counter[int] | None) -> list[int]:
        """The one token that leads to the end, as far as bytes tell; any where they do not."""
        bits, ids = self._tokens.allowed(state), self._tokens.bytes
        here = (bits[ids // 32] >> (ids % 32).astype(np.uint32) & 1).astype(bool) & (ids >= 0)
        allowed = set(np.flatnonzero(here).tolist())
        if used is not None:
            order = sorted(VARIED, key=lambda byte: used[int(ids[byte])])
        else:
            order = list(INSIDE if ord('"') in allowed and allowed & CONTENT else OUTSIDE)
        best = next((int(ids[byte]) for byte in order if byte in allowed), None)
        return tokens_of(bits)[:1] if best is None else [best]

    def _joined(self, matcher: LLMatcher, tokens: list[int]) -> list[int]:
        """The same text in fewer tokens where the grammar takes it so."""
        tokenizer = self._tokens.tokenizer
        joined = tokenizer.tokenize_bytes(tokenizer.decode_bytes(tokens))
        fewer = len(joined) < len(tokens) and matcher.validate_tokens(joined) == len(joined)
        return joined if fewer else tokens
