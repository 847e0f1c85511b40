"""Masks reach the row they are for, and drafting under them changes no token."""

import mlx.core as mx
import numpy as np
import pytest

from fixtures import parity, zoo
from llm_specdec.constraints import masks
from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling import logits_processors

PROMPT = parity.PROMPTS["long"]


class Shift:
    """From the `start`-th token of the output on, up to the `stop`-th, only a third of the
    vocabulary may follow, which third by the sum of all tokens of the output."""

    def __init__(self, start=0, stop=1000):
        self.start, self.stop = start, stop
        self.output: list[int] = []

    def allowed(self, drafts):
        text = [*self.output, *drafts]
        if not self.start <= len(text) < self.stop:
            return None
        return masks.only(range(sum(text) % 3, zoo.VOCAB, 3), zoo.VOCAB)

    def commit(self, tokens):
        self.output += tokens


def keeps(text, start=0, stop=1000):
    """Whether a text does what Shift asks for, said anew."""
    return all(text[i] % 3 == sum(text[:i]) % 3 for i in range(start, min(stop, len(text))))


def test_a_bit_stands_for_a_token():
    assert masks.only([0, 33, 34, 95], 96).tolist() == [1, 0b110, 1 << 31]
    assert masks.only([], 33).tolist() == [0, 0]


def test_what_is_not_allowed_has_no_chance():
    bits = np.stack([masks.only([1, 34], 35), masks.only(range(35), 35)])
    rows = logits_processors.forbid(mx.arange(70, dtype=mx.float32).reshape(2, 35), bits)
    assert rows[0].tolist() == [i if i in (1, 34) else -np.inf for i in range(35)]
    assert rows[1].tolist() == list(range(35, 70))


def test_rows_see_the_drafts_before_them_and_several_constraints_all_count():
    asked = []

    class Asked:
        def allowed(self, drafts):
            asked.append(list(drafts))
            return None if len(drafts) == 1 else masks.only([len(drafts), 9], 32)

        def commit(self, tokens):
            raise AssertionError

    class Nine(Asked):
        def allowed(self, drafts):
            return masks.only([9], 32) if drafts else None

    bits = masks.rows([Asked()], [7, 8])
    assert asked == [[], [7], [7, 8]]
    assert bits is not None
    assert bits.tolist() == [[1 << 0 | 1 << 9], [0xFFFFFFFF], [1 << 2 | 1 << 9]]
    both = masks.rows([Asked(), Nine()], [7, 8])
    assert both is not None
    assert both.tolist() == [[1 << 0 | 1 << 9], [1 << 9], [1 << 9]]
    assert masks.rows([Nine()], []) is None
    assert masks.rows([], [1]) is None


def decode(family, drafter, length, constraint, tokens=40):
    target = parity.target(family)
    cache = RollbackCache(target.model, max_draft=max(length, 1))
    request = Request(PROMPT, tokens, constraints=[constraint])
    run = Run(target, cache, drafter, Fixed(length), request, PhaseTimer())
    found = [token for part in run.tokens() for token in part]
    assert found == run.stats.completion == constraint.output
    assert run.cache.length == len(PROMPT) + tokens - 1
    cache.close()
    return found, run.stats


@pytest.mark.parametrize("span", [(0, 1000), (1, 2), (5, 20)], ids=str)
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_drafted_text_under_a_constraint_is_the_undrafted_one(family, span):
    plain, _ = decode(family, None, 0, Shift(*span))
    assert keeps(plain, *span)
    free, _ = decode(family, None, 0, Shift(1000))
    assert plain[: span[0]] == free[: span[0]] and plain != free
    drafters = {
        "oracle": zoo.oracle([*PROMPT, *plain]),
        "mixed": zoo.Scripted([*PROMPT, *plain], rate=0.6),
        "adversary": zoo.adversary([*PROMPT, *plain]),
        "lookup": LookupDrafter(),
        "model": ModelDrafter(parity.near_copy(family), zoo.VOCAB),
        "dflash": parity.block_drafter(family, 2),
    }
    for name, drafter in drafters.items():
        drafted, stats = decode(family, drafter, 4, Shift(*span))
        assert drafted == plain, name
        if name == "oracle":
            assert stats.accepted == stats.drafted > 0
        if name == "adversary":
            assert stats.accepted == 0 < stats.drafted


def test_a_drafter_draws_from_what_is_allowed():
    """A copy of the target is then always right, at every position."""
    same = ModelDrafter(parity.target("llama"), zoo.VOCAB)
    _, stats = decode("llama", same, 3, Shift())
    assert stats.accepted == stats.drafted > 0
