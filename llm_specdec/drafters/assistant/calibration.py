"""From which position an assistant looks back: that of the last token, or that of the hidden state
before it.

Publishers' own runtimes disagree, and an assistant drafts with either, only worse with the wrong
one. So both are tried on the target's own answers. Whether its window holds a row more or less
would take texts longer than the window to tell, and is not tried.
"""

from collections.abc import Sequence
from functools import partial

import mlx.core as mx

from llm_specdec.drafters.assistant import KIND
from llm_specdec.drafters.assistant.config import FULL, SLIDING
from llm_specdec.drafters.assistant.drafter import AssistantDrafter
from llm_specdec.drafters.common import own_answers
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.session import Session
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target


def calibrate(session: Session) -> tuple[str, dict[str, float]]:
    """The reading to keep, and the acceptance of the first draft token with each.

    Raises: CheckpointError, UnsupportedError, UsageError.
    """
    drafter = session.drafter
    assert isinstance(drafter, AssistantDrafter)
    found = [acceptance(drafter, session.target, *said) for said in own_answers.of(session)]
    means = {reads: sum(one[reads] for one in found) / len(found) for reads in KIND.readings}
    return own_answers.better(means, next(iter(KIND.readings))), means


def acceptance(
    drafter: AssistantDrafter, target: Target, prompt: Sequence[int], answer: Sequence[int]
) -> dict[str, float]:
    """How often the first draft token is the next of the target's own greedy answer, by reading.

    answer: two tokens or more. One pass of the target, one of the drafter a reading.
    """
    ids = mx.array([*prompt, *answer], dtype=mx.int32)
    first, end = len(prompt), ids.size - 1  # tokens after which the next one is drafted
    cache = RollbackCache(target.model, max_draft=1)
    with Taps(target.model, drafter.taps) as tapped:
        mx.eval(target.forward(ids, cache))
        hidden = tapped.take()["final_norm"][first - 1 : end - 1]
    run = partial(
        drafter.model,
        drafter.embed(ids[first:end])[None],
        hidden[None],
        drafter.shared(cache, whole=True),
        masks=_masks(first, end, ids.size, drafter.config.window),
    )
    found = {}
    for back, reads in enumerate(KIND.readings):
        states = run(first - back)[0]
        drafted = mx.stack([drafter.best(state) for state in states])
        found[reads] = float((drafted == ids[first + 1 :]).mean())
    return found


def _masks(first: int, end: int, rows: int, window: int) -> dict[str, mx.array]:
    """What each token from `first` to `end` sees: rows before its own, of these the last ones."""
    distance = mx.arange(first, end)[:, None] - mx.arange(rows)
    before = distance > 0
    return {FULL: before, SLIDING: before & (distance <= window)}
