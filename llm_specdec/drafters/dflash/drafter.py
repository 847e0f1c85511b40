"""The drafter the loop drives: what it was told, when it computes, how it draws."""

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx

from llm_specdec.drafters.common.lender import Lender
from llm_specdec.drafters.common.shortlist import NEVER, Shortlist
from llm_specdec.drafters.common.stored import ready
from llm_specdec.drafters.dflash.config import DFlashConfig, read
from llm_specdec.drafters.dflash.model import ContextCache, best
from llm_specdec.drafters.dflash.weights import Checkpoint
from llm_specdec.drafters.dflash.weights import load as load_weights
from llm_specdec.engine.drafter import Draw, Hidden, Proposal, Tap
from llm_specdec.errors import PairingError

_PATIENCE = 256  # context rows that may wait for a block before they are taken in


def load(
    folder: Path,
    target: Lender,
    bits: int | None = None,
    group_size: int = 64,
    shortlist: bool = False,
) -> "DFlashDrafter":
    """Load a DFlash or DFlash 2 checkpoint for a loaded target, in the target's precision;
    with `bits` its matrices are quantised. With `shortlist` a drafter that borrows the target's
    output matrix drafts over the common tokens alone.

    Raises: CheckpointError, PairingError.
    """
    config = read(folder)
    dtype = embedded_by(target, folder, config.hidden_size)
    checkpoint = load_weights(folder, config, dtype, bits, group_size)
    ready(checkpoint)
    return DFlashDrafter(config, checkpoint, target, dtype, shortlist)


def embedded_by(target: Lender, folder: Path, hidden_size: int) -> mx.Dtype:
    """The target's precision. Raises PairingError where its hidden size is another one."""
    embedded = target.embed(mx.array([0]))
    if embedded.shape[-1] != hidden_size:
        raise PairingError(
            f"{folder} is made for a hidden size of {hidden_size}, the target has "
            f"{embedded.shape[-1]}: take the drafter trained for this target"
        )
    return embedded.dtype


class DFlashDrafter:
    """Keeps keys and values of committed positions, and the target's hidden states of those
    that came since the last block: they are taken in together with the next one."""

    kind = source = "dflash"

    def __init__(
        self,
        config: DFlashConfig,
        checkpoint: Checkpoint,
        target: Lender,
        dtype: mx.Dtype,
        shortlist: bool = False,
    ) -> None:
        self.config = config
        self.taps: tuple[Tap, ...] = tuple(
            "embedding" if i < 0 else i for i in config.target_layer_ids
        )
        self.max_draft: int | None = config.longest
        self.model = checkpoint.model
        embedding, head = checkpoint.embedding, checkpoint.head
        self._embed = target.embed if embedding is None else embedding
        self._head = target.head if head is None else head
        self._target = target
        narrow = shortlist and head is None
        self._shortlist = Shortlist(target.vocab_size) if narrow else None
        self._tokens = None if head is None else head.tokens
        self._vocab_size, self._dtype = target.vocab_size, dtype
        self._widest = max(target.vocab_size, config.vocab_size)
        known = None if self._tokens is None else self._tokens < target.vocab_size
        self._unknown = None if known is None or mx.all(known).item() else ~known
        self.start(0)

    # What it is told

    def start(self, token: int) -> None:
        self._cache = ContextCache(self.config, self._dtype)
        self._waiting: list[mx.array] = []  # (n, taps · hidden) each
        self._pending = token
        if self._shortlist:
            self._shortlist.start([token])

    def extend(self, next_tokens: Sequence[int], hidden: Hidden) -> None:
        self._pending = next_tokens[-1]
        if self._shortlist:
            self._shortlist.watch(next_tokens)
        n, keep = len(next_tokens), self._cache.keep
        if keep is not None and n >= keep:
            self._forget(n - keep)
            hidden = {tap: rows[n - keep :] for tap, rows in hidden.items()}
        self._waiting.append(mx.concatenate([hidden[tap] for tap in self.taps], axis=-1))
        if self._told() >= min(_PATIENCE, keep or _PATIENCE):
            self._absorb()
            mx.async_eval(self._cache.keys, self._cache.values)

    def _forget(self, unseen: int) -> None:
        """Everything so far is out of sight, and so are the next `unseen` positions."""
        self._cache.first = self._cache.position + self._told() + unseen
        self._cache.rows = 0
        self._waiting = []

    def _told(self) -> int:
        return sum(rows.shape[0] for rows in self._waiting)

    def _absorb(self) -> None:
        context = self._context()
        if context is not None:
            self.model.absorb(context, self._cache)

    def _context(self) -> mx.array | None:
        """The waiting rows, which then wait no more."""
        if not self._waiting:
            return None
        rows = self._waiting[0] if len(self._waiting) == 1 else mx.concatenate(self._waiting)
        self._waiting = []
        return self.model.context(rows)

    # What it proposes

    def ready(self) -> bool:
        return True

    def propose(self, k: int, draw: Draw) -> Proposal:
        hidden = self._block(min(k, self.config.longest))
        logits = self._logits(hidden)
        if self.config.version == 2:
            return draw.proposal(self._selected(hidden, logits, draw))
        return draw.proposal(self._drawn(logits, draw))

    def _block(self, k: int) -> mx.array:
        """Hidden states (k, hidden) of the rows that give k draft tokens."""
        masks = k - 1 if self.config.from_anchor else k
        block = mx.array([self._pending] + [self.config.mask_token] * masks)
        embedded = self._embed(block)
        if self.config.embedding_scale != 1:
            embedded = embedded * self.config.embedding_scale
        found: mx.array = self.model(embedded, self._context(), self._cache)
        return found

    def _logits(self, hidden: mx.array) -> mx.array:
        if self._shortlist:
            logits = self._target.head(hidden, self._shortlist.rows)
        else:
            logits = self._head(hidden)
        if self.config.output_multiplier != 1:
            logits = logits * self.config.output_multiplier
        if self.config.softcap:
            logits = mx.tanh(logits / self.config.softcap) * self.config.softcap
        if self._tokens is None:
            return logits[:, : self._vocab_size]  # an own matrix may have more padding
        return logits if self._unknown is None else mx.where(self._unknown, NEVER, logits)

    def _drawn(self, logits: mx.array, draw: Draw) -> mx.array:
        """DFlash: each slot by itself."""
        if self._tokens is None:
            if self._shortlist and not draw.plain:
                logits = self._shortlist.whole(logits)
            return draw.block(logits)
        if draw.plain:
            return self._tokens[mx.argmax(logits, axis=-1)]
        return draw.block(self._rows(self._tokens[None], logits))

    def _selected(self, hidden: mx.array, logits: mx.array, draw: Draw) -> mx.array:
        """DFlash 2: slot by slot among the best candidates, given the one chosen before."""
        selector, c = self.model.candidate_selector, self.config.selector_top_k
        logits = logits[:, : self.config.vocab_size]  # the target's may have more padding
        columns = best(logits, c)
        unary = mx.take_along_axis(logits, columns, axis=-1)
        candidates = columns if self._tokens is None else self._tokens[columns]
        candidates = candidates.astype(mx.int32)
        scores = selector.scores(hidden, unary, candidates, self._pending)
        if draw.plain:
            return _best_path(scores, candidates)
        tokens: list[mx.array] = []
        for i in range(candidates.shape[0]):
            before = mx.argmax(candidates[i - 1] == tokens[-1]) if tokens else 0
            row = self._rows(candidates[i : i + 1], scores[i, before][None])[0]
            tokens.append(draw.one(row, tokens))
        return mx.stack(tokens)

    def _rows(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Logits (k, c) of some tokens, (k, c) or (1, c) → of the whole vocabulary, float32."""
        rows = mx.full((logits.shape[0], self._widest), NEVER, dtype=mx.float32)
        index = mx.broadcast_to(tokens, logits.shape)
        rows = mx.put_along_axis(rows, index, logits.astype(mx.float32), axis=-1)
        return rows[:, : self._vocab_size]

    # What the prefix cache keeps

    def state(self) -> list[mx.array]:
        self._absorb()
        return self._cache.stored()

    def trims(self, length: int) -> bool:
        return self._cache.keep is None or length <= self._cache.keep

    def load_state(self, arrays: list[mx.array], tokens: Sequence[int]) -> None:
        self.start(tokens[-1])
        if self._shortlist:
            self._shortlist.start(tokens)
        self._cache.restore(arrays, position=len(tokens) - 1)


def _best_path(scores: mx.array, candidates: mx.array) -> mx.array:
    """The greedy walk through `Selector.scores`: which follows which is looked up for all
    slots at once, so that a slot costs one gather and no wait for the device."""
    k, c = candidates.shape
    following = mx.argmax(scores, axis=-1) + mx.arange(k)[:, None] * c
    following = following.reshape(-1).astype(mx.int32)
    at = following[:1]
    path = [at]
    for _ in range(k - 1):
        at = following[at + c]
        path.append(at)
    return candidates.reshape(-1)[mx.concatenate(path)]
