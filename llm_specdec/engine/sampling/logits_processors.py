"""Logits transforms: pure functions of (token history, logits row).

A verify pass gives k + 1 rows at once; row i must see the history as of draft token i. Only
the columns of tokens that occurred can change, so penalties gather those columns, change them
and put them back: the cost follows the number of distinct tokens, not the vocabulary.

Two scopes. `card`: repetition over prompt + output, presence and frequency over
the output, whole history; then temperature, top-k, top-p, min-p, the order of the servers that
cards are written for. `mlx`: all three over the last 20 tokens of prompt + output; then top-p,
min-p, top-k on the untempered distribution, then temperature: mlx-lm's `make_logits_processors`
and `make_sampler` (mlx_lm/sample_utils.py, 0.32.2).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import mlx.core as mx

from llm_specdec.constraints.masks import Bits

MLX_WINDOW = 20  # tokens; the context size that mlx-lm's penalties default to
GROUP = 64  # columns of a row whose maxima are compared first when the largest are looked for
FEW = 512  # columns among which, on a CPU, all that top-p keeps is looked for first
COLDEST = 1e-6  # below it only the best logit has a chance, and dividing by it may overflow


@dataclass(frozen=True)
class Sampling:
    """How a run turns logits into tokens. Neutral values are the defaults."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_scope: Literal["card", "mlx"] = "card"
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    @property
    def greedy(self) -> bool:
        return self.temperature < COLDEST

    @property
    def penalises(self) -> bool:
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )

    @property
    def neutral(self) -> bool:
        """True where logits rows do not depend on the history and carry no bias."""
        return not self.penalises and not self.logit_bias


class History:
    """What the penalties count: prompt and committed output, as counts per token.

    Draft tokens never enter it; `penalise` takes them separately, so a rejected draft leaves
    nothing behind.
    """

    def __init__(self, prompt: Sequence[int], vocab_size: int) -> None:
        """A prompt may hold ids that have no column; they count for nothing."""
        prompt = [token for token in prompt if token < vocab_size]
        self._known = dict.fromkeys(prompt)
        self._tail = prompt[-MLX_WINDOW:]
        self.distinct = mx.array(list(self._known) or [0], dtype=mx.int32)
        empty = mx.zeros((vocab_size,), dtype=mx.float32)
        self.everywhere = empty.at[mx.array(prompt, dtype=mx.int32)].add(1.0) if prompt else empty
        self.output = empty

    @property
    def tail(self) -> mx.array:
        """The last 20 tokens at most, (t,) int32."""
        return mx.array(self._tail, dtype=mx.int32)

    def commit(self, tokens: Sequence[int]) -> None:
        ids = mx.array(list(tokens), dtype=mx.int32)
        self.everywhere = self.everywhere.at[ids].add(1.0)
        self.output = self.output.at[ids].add(1.0)
        self._tail = [*self._tail, *tokens][-MLX_WINDOW:]
        fresh = [token for token in dict.fromkeys(tokens) if token not in self._known]
        if fresh:
            self._known.update(dict.fromkeys(fresh))
            self.distinct = mx.concatenate([self.distinct, mx.array(fresh, dtype=mx.int32)])


def penalise(
    rows: mx.array,
    history: History,
    drafts: mx.array,
    sampling: Sampling,
    first: int = 0,
) -> mx.array:
    """Apply logit bias and penalties to consecutive rows.

    Shapes: rows (m, vocab); drafts (k,) int32, k ≥ first + m - 1; row i sees the history and
    the first `first + i` draft tokens. Returns (m, vocab): of the dtype of `rows` where nothing
    is changed and under the scope `mlx`, which rounds as mlx-lm does; else float32, because a
    penalty of 0.05 on a logit of 20 is lost in bfloat16.
    """
    if not (sampling.penalises or sampling.logit_bias):
        return rows
    if sampling.penalty_scope == "card":
        rows = rows.astype(mx.float32)
    rows = _biased(rows, sampling.logit_bias)
    if not sampling.penalises:
        return rows
    count = _mlx_counts if sampling.penalty_scope == "mlx" else _card_counts
    columns, repeated, output = count(history, drafts, rows.shape[0], first)
    index = mx.broadcast_to(columns, (rows.shape[0], columns.shape[0]))
    values = mx.take_along_axis(rows, index, axis=1)
    changed = _penalised(values, repeated, output, sampling).astype(rows.dtype)
    return mx.put_along_axis(rows, index, changed, axis=1)


def _biased(rows: mx.array, bias: Mapping[int, float]) -> mx.array:
    if not bias:
        return rows
    ids = mx.array(list(bias), dtype=mx.int32)
    values = mx.array(list(bias.values())).astype(rows.dtype)
    return rows.at[:, ids].add(values)


def _penalised(
    values: mx.array, repeated: mx.array, output: mx.array, sampling: Sampling
) -> mx.array:
    """The three penalties on gathered values (m, c), given how often each token occurred."""
    penalty = sampling.repetition_penalty
    if penalty != 1.0:
        scaled = mx.where(values < 0, values * penalty, values / penalty)
        values = mx.where(repeated > 0, scaled, values)
    if sampling.presence_penalty:
        values = mx.where(output > 0, values - sampling.presence_penalty, values)
    if sampling.frequency_penalty:
        values = values - sampling.frequency_penalty * output
    return values


def _card_counts(
    history: History, drafts: mx.array, m: int, first: int
) -> tuple[mx.array, mx.array, mx.array]:
    """Columns (c,) and, for each row, how often each occurred in all and in the output (m, c)."""
    columns = mx.concatenate([history.distinct, drafts.astype(mx.int32)])
    seen = mx.arange(first, first + m)[:, None] > mx.arange(drafts.shape[0])[None]
    same = (drafts[:, None] == columns[None]).astype(mx.float32)
    drafted = seen.astype(mx.float32) @ same
    return columns, history.everywhere[columns] + drafted, history.output[columns] + drafted


def _mlx_counts(
    history: History, drafts: mx.array, m: int, first: int
) -> tuple[mx.array, mx.array, mx.array]:
    """As `_card_counts`, over the last 20 tokens before each row."""
    tail = history.tail
    columns = mx.concatenate([tail, drafts.astype(mx.int32)])
    ends = mx.arange(first, first + m)[:, None] + tail.shape[0]
    at = mx.arange(columns.shape[0])[None]
    window = ((at < ends) & (at >= ends - MLX_WINDOW)).astype(mx.float32)
    counts = window @ (columns[:, None] == columns[None]).astype(mx.float32)
    return columns, counts, counts


def distribution(rows: mx.array, sampling: Sampling) -> mx.array:
    """The exact distribution each row is sampled from; `sampling` must not be greedy.

    Shapes: rows (m, vocab) logits after penalties → (m, vocab) float32 probabilities.
    Only a few columns are sorted where they are sure to hold all that is kept: a sort of a whole
    vocabulary may take longer than the pass that gave the logits.
    """
    rows, scale = rows.astype(mx.float32), 1.0 / sampling.temperature
    tempered_first = sampling.penalty_scope == "card"
    scores = rows * scale if tempered_first else rows
    norm = mx.logsumexp(scores, axis=-1, keepdims=True)
    columns = None
    if 0 < sampling.top_k < rows.shape[-1]:
        columns = _largest(scores, sampling.top_k)
        if tempered_first:  # then top-p adds up what top-k has left
            norm = mx.logsumexp(mx.take_along_axis(scores, columns, -1), axis=-1, keepdims=True)
    elif 0 < sampling.top_p < 1 and mx.default_device().type == mx.DeviceType.cpu:
        columns = _most_probable(scores, sampling.top_p, norm)
    if columns is not None:
        scores = mx.take_along_axis(scores, columns, axis=-1)
    scores = _top_p(scores, sampling.top_p, norm)
    scores = _min_p(scores, sampling.min_p)
    probs = mx.softmax(scores if tempered_first else scores * scale, axis=-1)
    return probs if columns is None else mx.put_along_axis(mx.zeros_like(rows), columns, probs, -1)


def _most_probable(scores: mx.array, p: float, norm: mx.array) -> mx.array | None:
    """FEW columns (m, FEW) that hold all that top-p keeps of scores (m, n); None where it may
    keep more. Probabilities are exp(scores - norm). To know, the host waits for the device: worth
    it where a sort takes long."""
    if scores.shape[-1] <= 2 * FEW:
        return None
    columns = _largest(scores, FEW)
    found = mx.take_along_axis(scores, columns, axis=-1)
    probs = mx.exp(found - norm)
    # What equals the least of them may be left outside, so it does not count.
    sure = mx.where(found > found.min(axis=-1, keepdims=True), probs, 0.0).sum(axis=-1)
    return columns if cast(bool, (sure >= p).all().item()) else None


def _largest(rows: mx.array, k: int) -> mx.array:
    """Columns (m, k) of the k largest values of rows (m, n), in no order.

    The k groups with the largest maxima hold them all, but for what is left over at the end of
    a row: only their members are compared.
    """
    m, n = rows.shape
    groups = n // GROUP
    if groups <= 2 * k:
        return mx.argpartition(-rows, kth=k - 1, axis=-1)[:, :k]
    maxima = rows[:, : groups * GROUP].reshape(m, groups, GROUP).max(axis=-1)
    best = mx.argpartition(-maxima, kth=k - 1, axis=-1)[:, :k, None]
    members = (best * GROUP + mx.arange(GROUP, dtype=best.dtype)).reshape(m, -1)
    rest = mx.arange(groups * GROUP, n, dtype=best.dtype)
    columns = mx.concatenate([members, mx.broadcast_to(rest, (m, rest.size))], axis=-1)
    values = mx.take_along_axis(rows, columns, axis=-1)
    at = mx.argpartition(-values, kth=k - 1, axis=-1)[:, :k]
    return mx.take_along_axis(columns, at, axis=-1)


def _top_p(scores: mx.array, p: float, norm: mx.array) -> mx.array:
    """Keep the fewest most probable tokens whose mass reaches p (and ties with the last).
    Probabilities are exp(scores - norm)."""
    if not 0 < p < 1:
        return scores
    ordered = mx.sort(scores, axis=-1)
    above = mx.cumsum(mx.exp(ordered - norm), axis=-1, reverse=True, inclusive=False)
    dropped = mx.minimum((above >= p).sum(axis=-1, keepdims=True), scores.shape[-1] - 1)
    threshold = mx.take_along_axis(ordered, dropped, axis=-1)
    return mx.where(scores < threshold, -mx.inf, scores)


def _min_p(scores: mx.array, p: float) -> mx.array:
    if p <= 0:
        return scores
    threshold = mx.max(scores, axis=-1, keepdims=True) + math.log(p)
    return mx.where(scores < threshold, -mx.inf, scores)


def forbid(logits: mx.array, bits: Bits) -> mx.array:
    """Logits (m, vocab) with -inf for what the masks (m, words) do not allow. The bits are
    spread on the device: a mask of 150,000 tokens is 19 kB to send."""
    m, vocab = logits.shape
    spread = (mx.array(bits)[..., None] >> mx.arange(32, dtype=mx.uint32)) & 1
    return mx.where(spread.reshape(m, -1)[:, :vocab].astype(mx.bool_), logits, -mx.inf)
