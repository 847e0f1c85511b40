"""Memory does not grow while an answer is written, but for its keys and values."""

import itertools

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.engine.loop import GIVE_BACK, Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.target import Target

SMALL = 1 << 20  # bytes: the arrays of one pass of a tiny model


@pytest.mark.parametrize(
    ("family", "rate", "tokens"),
    [("llama", 0.0, 8000), ("llama", 0.7, 1500), ("qwen3_5", 0.7, 1100)],
    ids=["plain", "drafted", "recurrent"],
)
def test_what_is_held_beside_the_cache_stays_as_it_was(family, rate, tokens):
    target = Target(*zoo.build(family))
    cache, prompt = RollbackCache(target.model, max_draft=3), [3, 4, 5]
    text = list(itertools.islice(itertools.cycle(range(5, 60)), tokens + 8))
    drafter = zoo.Scripted([*prompt, *text], rate) if rate else None
    request = Request(prompt, tokens)
    run = Run(target, cache, drafter, Fixed(3 if rate else 0), request, PhaseTimer())
    mx.clear_cache()
    before = mx.get_active_memory()
    written, beside, freed = 0, [], []
    for part in run.tokens():
        written += len(part)
        beside.append(mx.get_active_memory() - before - cache.nbytes)
        freed.append(mx.get_cache_memory())
    assert written == tokens
    assert max(_lowest(beside)) < SMALL
    assert max(_lowest(freed)) < SMALL  # mlx keeps freed buffers until they are given back


def _lowest(found):
    """Of each stretch of rounds; in between there are the arrays of a pass under way."""
    window = 2 * GIVE_BACK
    return [min(found[at : at + window]) for at in range(0, len(found) - window, window)]
