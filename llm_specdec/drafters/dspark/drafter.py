"""The drafter the loop drives: slot by slot, given the token drawn before."""

from pathlib import Path

import mlx.core as mx
from mlx.nn.layers.normalization import RMSNorm

from llm_specdec.drafters.common.lender import Lender
from llm_specdec.drafters.common.shortlist import NEVER
from llm_specdec.drafters.common.stored import Weights, ready
from llm_specdec.drafters.dflash.drafter import DFlashDrafter, embedded_by
from llm_specdec.drafters.dflash.weights import Checkpoint
from llm_specdec.drafters.dflash.weights import load as load_weights
from llm_specdec.drafters.dspark.config import DSparkConfig, read
from llm_specdec.drafters.dspark.model import DSparkModel
from llm_specdec.engine.drafter import Draw, Proposal
from llm_specdec.engine.taps import modules_of

# Draft tokens that are kept less often than this are not worth checking.
LEAST = 0.2


def load(
    folder: Path,
    target: Lender,
    bits: int | None = None,
    group_size: int = 64,
    shortlist: bool = False,
) -> "DSparkDrafter":
    """Load a DSpark checkpoint for a loaded target, in the target's precision; with `bits` its
    matrices are quantised, and `shortlist` is as for DFlash.

    Raises: CheckpointError, PairingError.
    """
    config = read(folder)
    dtype = embedded_by(target, folder, config.block.hidden_size)
    checkpoint = built(folder, config, dtype, bits, group_size)
    if config.gains_less_one:
        for module in modules_of(checkpoint.model):
            if isinstance(module, RMSNorm):
                module.weight = module.weight + 1
    ready(checkpoint)
    return DSparkDrafter(config, checkpoint, target, dtype, shortlist)


def built(
    folder: Path,
    config: DSparkConfig,
    dtype: mx.Dtype = mx.float32,
    bits: int | None = None,
    group_size: int = 64,
) -> Checkpoint:
    """As the files have it, lazily. Raises CheckpointError."""

    def made(weights: Weights) -> DSparkModel:
        rows = weights["model.markov_head.markov_w2.weight"].shape[0]
        return DSparkModel(config, rows, "model.confidence_head.proj.weight" in weights)

    return load_weights(folder, config.block, dtype, bits, group_size, made)


class DSparkDrafter(DFlashDrafter):
    kind = source = "dspark"
    model: DSparkModel

    def __init__(
        self,
        config: DSparkConfig,
        checkpoint: Checkpoint,
        target: Lender,
        dtype: mx.Dtype,
        shortlist: bool = False,
    ) -> None:
        super().__init__(config.block, checkpoint, target, dtype, shortlist)
        self._rank, self._whole_block = config.markov_rank, not all(config.block.causal)

    def propose(self, k: int, draw: Draw) -> Proposal:
        """Shorter than `k` where the confidence head says so. That rests on the tokens before
        a slot, never on its own: what is drawn keeps its distribution."""
        k = min(k, self.config.longest)
        # Each slot sees the whole block, so the block is run as long as it was trained.
        hidden = self._block(self.config.longest if self._whole_block else k)[:k]
        tokens, chances = self._walk(hidden, self._logits(hidden), draw)
        proposal = draw.proposal(mx.stack(tokens))
        n = _worth(chances) if chances and k > 1 else k
        if n == k:
            return proposal
        return Proposal(proposal.tokens[:n], None if proposal.probs is None else proposal.probs[:n])

    def _walk(
        self, hidden: mx.array, logits: mx.array, draw: Draw
    ) -> tuple[list[mx.array], list[mx.array]]:
        """The draft tokens, and how likely each is to be kept if those before it are."""
        heads, before = self.model, mx.array(self._pending)
        state = mx.zeros((self._rank,), dtype=self._dtype)
        tokens: list[mx.array] = []
        chances: list[mx.array] = []
        for h, row in zip(hidden, logits, strict=True):
            w = heads.markov_head.markov_w1(before)
            bias, state = heads.markov_head.bias(h, w, state)
            if heads.confident:
                chances.append(heads.confidence_head(h, w))
            width = min(row.shape[0], bias.shape[0])  # padding may differ, or a shortlist end
            before = self._one(row[:width] + bias[:width], tokens, draw)
            tokens.append(before)
        return tokens, chances

    def _one(self, row: mx.array, drafted: list[mx.array], draw: Draw) -> mx.array:
        if draw.plain:
            best = mx.argmax(row)
            return (best if self._tokens is None else self._tokens[best]).astype(mx.int32)
        if self._tokens is not None:
            return draw.one(self._rows(self._tokens[None], row[None])[0], drafted)
        padding = self._vocab_size - row.shape[0]
        return draw.one(mx.pad(row, (0, padding), constant_values=NEVER), drafted)


def _worth(chances: list[mx.array]) -> int:
    """How many draft tokens to check: the first, and others until one is unlikely to be kept."""
    kept = mx.cumprod(mx.concatenate(chances).astype(mx.float32))
    worth: list[bool] = (kept >= LEAST).tolist()  # type: ignore[assignment]
    return max(1, [*worth, False].index(False))
