"""The small-model drafter: what it keeps of drafts, and what a prefix cache gets."""

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.engine.request import Request
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.target import Target

TOKENS = [3 + (7 * i) % 50 for i in range(40)]


@pytest.fixture(params=["llama", "gemma3", "qwen3_5"])
def target(request):
    return Target(*zoo.build(request.param))


def drafts(drafter, k):
    return drafter.propose(k, DraftSampler(Sampler(Request([0], 1), 1))).tokens.tolist()


def told(target, *parts):
    drafter = ModelDrafter(target, target.vocab_size)
    drafter.start(parts[0][0])
    for part in (parts[0][1:], *parts[1:]):
        drafter.extend(part, {})
    return drafter


@pytest.mark.parametrize("accepted", [0, 1, 3])
def test_a_round_leaves_what_a_fresh_drafter_would_have(target, accepted):
    drafter = told(target, TOKENS)
    proposed = drafts(drafter, 3)
    committed = [*proposed[:accepted], 5]
    drafter.extend(committed, {})
    fresh = told(target, [*TOKENS, *committed])
    assert drafts(drafter, 4) == drafts(fresh, 4)


@pytest.mark.parametrize("after", ["extending", "proposing"])
def test_a_restored_drafter_drafts_the_same(target, after):
    drafter = told(target, TOKENS[:20], TOKENS[20:])
    expected = drafts(told(target, TOKENS), 4)
    if after == "proposing":
        drafts(drafter, 3)
    kept = [mx.array(array) for array in drafter.state()]
    restored = ModelDrafter(target, target.vocab_size)
    restored.load_state(kept, TOKENS)
    assert drafts(restored, 4) == expected
    assert drafts(drafter, 4) == expected


def test_a_state_is_kept_although_drafts_lie_beyond_tokens_that_waited(target):
    """As after an interrupt: the first draft's pass read three committed tokens at once."""
    drafter = told(target, TOKENS[:37], TOKENS[37:])
    drafts(drafter, 3)
    restored = ModelDrafter(target, target.vocab_size)
    restored.load_state(drafter.state(), TOKENS)
    assert drafts(restored, 4) == drafts(told(target, TOKENS), 4)
