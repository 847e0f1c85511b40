"""Which hidden states suit a head: those after the target's final norm, or those before it.

Publishers' own runtimes disagree, and a head drafts with either, only worse with the wrong
ones. So both are tried on the target's own answers to fixed prompts, the text that a head is
trained for (on text by other hands the two can come out alike), and the better is kept with
the pairing.
"""

from collections.abc import Sequence

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from llm_specdec.drafters.common import own_answers
from llm_specdec.drafters.mtp import KIND
from llm_specdec.drafters.mtp.drafter import MTPDrafter
from llm_specdec.drafters.mtp.loading import tap_of
from llm_specdec.engine.session import Session
from llm_specdec.engine.taps import Taps
from llm_specdec.engine.target import Target

READS = tuple(KIND.readings)


def calibrate(session: Session) -> tuple[str, dict[str, float]]:
    """Which hidden states the target's own head should read, and its acceptance on the
    target's answers to fixed prompts for each choice.

    Raises: CheckpointError, UnsupportedError, UsageError.
    """
    drafter = session.drafter
    assert isinstance(drafter, MTPDrafter)
    found = [acceptance(drafter, session.target, *said) for said in own_answers.of(session)]
    means = {reads: sum(one[reads] for one in found) / len(found) for reads in READS}
    usual = "final_norm" if drafter.taps == ("final_norm",) else "last_layer"
    return own_answers.better(means, usual), means


def acceptance(
    drafter: MTPDrafter, target: Target, prompt: Sequence[int], answer: Sequence[int]
) -> dict[str, float]:
    """How often the head's first draft token is the next token of the target's own answer.

    answer: greedy, two tokens or more. One pass of the target, one of the head a reading.
    """
    taps = {reads: tap_of(reads, target.model) for reads in READS}
    ids = mx.array([*prompt, *answer], dtype=mx.int32)
    with Taps(target.model, tuple(taps.values())) as tapped:
        mx.eval(target.model(ids[None]))
        hidden = tapped.take()
    start = len(prompt) - 1  # the slot that holds the answer's first token
    right = {
        reads: _drafted(drafter, ids[:-1], hidden[tap][:-1])[start:] == ids[start + 2 :]
        for reads, tap in taps.items()
    }
    return {reads: float(rows.mean()) for reads, rows in right.items()}


def _drafted(drafter: MTPDrafter, ids: mx.array, hidden: mx.array) -> mx.array:
    """The head's choice in every slot, (n - 1,)."""
    embedded = drafter.target.embed(ids[1:])
    output = drafter.head(embedded[None], hidden[None, :-1], KVCache())[0]
    return mx.argmax(
        drafter.target.head(drafter.head.norm(output), drafter.target.vocab_size), axis=-1
    )
