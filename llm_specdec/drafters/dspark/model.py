"""The two heads behind a DFlash block. Vectors: h (hidden,) of a slot, w (rank,) of the token
before it.

Source: the public layout of DeepSpec's and `speculators`' checkpoints.
"""

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear

from llm_specdec.drafters.dflash.model import BlockModel
from llm_specdec.drafters.dspark.bodies import layer_of
from llm_specdec.drafters.dspark.config import DSparkConfig


class MarkovHead(Module):
    """Adds to the logits of a slot what the token before makes likely: a matrix of low rank over
    pairs of tokens, in which the slot's state ("gated") or all slots so far ("rnn") have a say."""

    def __init__(self, config: DSparkConfig, rows: int) -> None:
        super().__init__()
        rank, hidden = config.markov_rank, config.block.hidden_size
        self.markov_w1 = Embedding(config.block.vocab_size, rank)
        self.markov_w2 = Linear(rank, rows, bias=False)
        self._type = config.markov_type
        if self._type == "gated":
            self.gate_proj = Linear(hidden + rank, rank)
        elif self._type == "rnn":
            self.joint_proj = Linear(2 * rank + hidden, 3 * rank)

    def bias(self, h: mx.array, w: mx.array, state: mx.array) -> tuple[mx.array, mx.array]:
        """(rows,), and the state for the next slot; zeros before the first."""
        if self._type == "gated":
            w = mx.sigmoid(self.gate_proj(mx.concatenate([h, w]))) * w
        elif self._type == "rnn":
            joint = self.joint_proj(mx.concatenate([state, w, h]))
            gate, candidate, out = mx.split(joint, 3)
            gate = mx.sigmoid(gate)
            state = gate * state + (1 - gate) * mx.tanh(candidate)
            w = mx.tanh(out)
        found: mx.array = self.markov_w2(w)
        return found, state


class ConfidenceHead(Module):
    """How likely a slot's draft token is to be kept, given that all before it are."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self._sees_token = config.confidence_sees_token
        width = config.block.hidden_size + (config.markov_rank if self._sees_token else 0)
        self.proj = Linear(width, 1)

    def __call__(self, h: mx.array, w: mx.array) -> mx.array:
        """(1,), between 0 and 1."""
        return mx.sigmoid(self.proj(mx.concatenate([h, w]) if self._sees_token else h))


class DSparkModel(BlockModel):
    """rows: of the output matrix whose logits the bias is added to."""

    def __init__(self, config: DSparkConfig, rows: int, confidence: bool) -> None:
        super().__init__(config.block, layer_of(config))
        self.markov_head = MarkovHead(config, rows)
        if confidence:
            self.confidence_head = ConfidenceHead(config)
        self._confident = confidence

    @property
    def confident(self) -> bool:
        return self._confident
