"""A thinking budget ends a block after just so many tokens, and drafts change nothing."""

import numpy as np
import pytest

from fixtures import parity, zoo
from llm_specdec.constraints.thinking_budget import Budget
from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.prompting.sections import Sections

ONE = Sections(think_start=(90,), think_end=(91,))
TWO = Sections(think_start=(90, 92), think_end=(91, 93))
LONG = Sections(think_start=(90,), think_end=(91,), closing=(91, 94, 95))


def forced(budget, drafts=()):
    """The one token that must come, None where every token may."""
    bits = budget.allowed(drafts)
    if bits is None:
        return None
    (token,) = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
    return int(token)


@pytest.mark.parametrize(
    ("sections", "section", "limit", "text", "tokens"),
    [
        (ONE, "reasoning", 2, [1, 2, 91, 4], [None, None, 91, None, None]),
        (ONE, "reasoning", 0, [91, 4], [91, None, None]),
        (ONE, "normal", 1, [4, 90, 1, 91, 4], [None, None, None, 91, None, None]),
        (ONE, "normal", 0, [4, 5], [None, None, None]),
        (ONE, "reasoning", 3, [1, 91, 90, 2, 3, 91], [None] * 5 + [91, None]),  # in all blocks
        (TWO, "reasoning", 1, [1, 91, 93, 4], [None, 91, 93, None, None]),
        (TWO, "reasoning", 2, [1, 91, 93, 4], [None, None, 93, None, None]),  # ends by itself
        (TWO, "normal", 1, [90, 4, 90, 92, 1, 91, 93], [None] * 5 + [91, 93, None]),
        (LONG, "reasoning", 1, [1, 91, 94, 95, 4], [None, 91, 94, 95, None, None]),
    ],
)
def test_the_end_is_forced_when_the_budget_is_spent(sections, section, limit, text, tokens):
    as_drafts = Budget(sections, section, limit, zoo.VOCAB)
    assert [forced(as_drafts, text[:i]) for i in range(len(text) + 1)] == tokens
    committed = Budget(sections, section, limit, zoo.VOCAB)
    found = [forced(committed)]
    for token in text:
        committed.commit([token])
        found.append(forced(committed))
    assert found == tokens


def decode(family, drafter, length):
    """A run that thinks from the start; any end token will do, the text is random."""
    target, prompt = parity.target(family), parity.PROMPTS["long"]
    cache = RollbackCache(target.model, max_draft=max(length, 1))
    budget = Budget(ONE, "reasoning", 10, zoo.VOCAB)
    request = Request(prompt, 30, constraints=[budget])
    run = Run(target, cache, drafter, Fixed(length), request, PhaseTimer())
    found = [token for part in run.tokens() for token in part]
    cache.close()
    return found, run.stats


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_drafting_goes_on_across_the_end_of_the_budget(family):
    plain, _ = decode(family, None, 0)
    assert 91 not in plain[:10] and plain[10] == 91
    prompt = parity.PROMPTS["long"]
    drafters = [zoo.Scripted([*prompt, *plain], rate) for rate in (1.0, 0.6, 0.0)]
    for drafter in [*drafters, LookupDrafter()]:
        drafted, stats = decode(family, drafter, 4)
        assert drafted == plain
        if drafter is drafters[0]:
            assert stats.accepted == stats.drafted > 0
