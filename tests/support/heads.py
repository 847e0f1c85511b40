"""What a prediction head makes of fixed inputs."""

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from llm_specdec.drafters.mtp.head import PredictionHead


def outputs(head: PredictionHead, rows: int = 5, width: int = 64) -> mx.array:
    mx.random.seed(7)
    embedded, hidden = mx.random.normal((2, 1, rows, width))
    output: mx.array = head(embedded, hidden, KVCache())
    return output
