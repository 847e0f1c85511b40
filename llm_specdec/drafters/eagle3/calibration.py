"""Whether the layers that a drafter names are meant after they ran or before.

Publishers count from the first layer's output or from what goes into it, and a drafter drafts
with either, only worse with the wrong one. So both are tried on the target's own answers.
"""

from collections.abc import Sequence

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from llm_specdec.drafters.common import own_answers
from llm_specdec.drafters.eagle3.drafter import Eagle3Drafter, taps_of
from llm_specdec.engine.session import Session
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target


def calibrate(session: Session) -> tuple[str, dict[str, float]]:
    """The reading to keep, and the acceptance of the first draft token with each possible one.

    Raises: CheckpointError, UnsupportedError, UsageError.
    """
    drafter = session.drafter
    assert isinstance(drafter, Eagle3Drafter)
    found = [acceptance(drafter, session.target, *said) for said in own_answers.of(session)]
    means = {reads: sum(one[reads] for one in found) / len(found) for reads in found[0]}
    return own_answers.better(means, drafter.config.readings(drafter.layers)[0]), means


def acceptance(
    drafter: Eagle3Drafter, target: Target, prompt: Sequence[int], answer: Sequence[int]
) -> dict[str, float]:
    """How often the first draft token is the next of the target's own greedy answer, by reading.

    answer: two tokens or more. One pass of the target, one of the drafter a reading.
    """
    config, layers = drafter.config, drafter.layers
    taps = {reads: taps_of(config, reads, layers) for reads in config.readings(layers)}
    ids = mx.array([*prompt, *answer], dtype=mx.int32)
    with Taps(target.model, tuple({tap for some in taps.values() for tap in some})) as tapped:
        mx.eval(target.model(ids[None]))
        hidden = tapped.take()
    start = len(prompt) - 1  # the slot that holds the answer's first token
    found = {}
    for reads, some in taps.items():
        states = mx.concatenate([hidden[tap] for tap in some], axis=-1)[:-2]
        right = _drafted(drafter, ids[1:-1], states)[start:] == ids[start + 2 :]
        found[reads] = sum(right.tolist()) / right.size  # type: ignore[arg-type]
    return found


def _drafted(drafter: Eagle3Drafter, tokens: mx.array, states: mx.array) -> mx.array:
    """The drafter's choice after each of `tokens` (n,)."""
    caches = [KVCache() for _ in range(drafter.config.layers)]
    output = drafter.model(drafter.embed(tokens)[None], drafter.model.fuse(states[None]), caches)[0]
    return drafter.chosen(drafter.logits(drafter.model.norm(output)))
