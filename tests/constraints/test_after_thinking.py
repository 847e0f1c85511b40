"""A schema holds for the answer alone, and thinking leaves room for it."""

import contextlib

import pytest

from fixtures import schema_runs, zoo
from fixtures.schema_runs import EOS, VOCAB, constraint
from llm_specdec.constraints.after_thinking import AfterThinking
from llm_specdec.constraints.masks import tokens_of
from llm_specdec.drafters.lookup.drafter import LookupDrafter
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request, RunStats
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.errors import UsageError
from llm_specdec.prompting.sections import Sections
from tests.support.schemas import PERSON, ids

THINK, END, CHANNEL, FINAL = 500, 501, 502, 503  # tokens that the tokenizer's JSON has no use for
ONE = Sections(think_start=(THINK,), think_end=(END,))
TWO = Sections(think_start=(THINK, 504), think_end=(END, 505))
HARMONY = Sections(
    think_start=(CHANNEL, THINK), think_end=(END,), closing=(END, 506, CHANNEL, FINAL)
)
JSON = '{"name": "A", "age": 3}'


def held(sections=ONE, section="reasoning", max_tokens=400):
    return AfterThinking(constraint(PERSON, max_tokens), sections, section)


def allowed(found, drafts=()):
    bits = found.allowed(drafts)
    assert bits is not None
    return set(tokens_of(bits)) & set(range(VOCAB))


def both_ways(make, tokens):
    """What may come after each beginning of `tokens`, as drafts; the same after commits."""
    drafted = [allowed(make(), tokens[:i]) for i in range(len(tokens) + 1)]
    found = make()
    committed = [allowed(found)]
    for token in tokens:
        found.commit([token])
        committed.append(allowed(found))
    assert drafted == committed
    return drafted


FREE = set(range(VOCAB)) - {EOS}
FIRST = allowed(constraint(PERSON, 400))


def test_the_answer_begins_after_the_marker():
    found = both_ways(held, [5, 6, END, *ids(JSON)])
    assert found[:3] == [FREE] * 3
    assert found[3] == FIRST
    assert found[-1] == {EOS} and all(EOS not in may for may in found[:-1])


def test_a_marker_of_two_tokens():
    found = both_ways(lambda: held(TWO), [5, END, 6, END, 505, *ids(JSON)])
    assert found[:5] == [FREE] * 5 and found[5] == FIRST and found[-1] == {EOS}


def test_a_model_may_think_or_answer_at_once():
    found = both_ways(lambda: held(TWO, "normal"), [THINK, 504, 5, END, 505, *ids(JSON)])
    assert found[0] == FIRST | {THINK} and found[1] == {504} and found[2] == FREE
    assert found[5] == FIRST and found[-1] == {EOS}
    found = both_ways(lambda: held(TWO, "normal"), ids(JSON))
    assert found[0] == FIRST | {THINK} and found[-1] == {EOS}
    assert found[1] == allowed(constraint(PERSON, 400), ids(JSON)[:1])


def test_harmony_has_a_header_before_the_answer():
    thinking = [CHANNEL, THINK, 5, END, 506, CHANNEL, FINAL, *ids(JSON)]
    found = both_ways(lambda: held(HARMONY, "header"), thinking)
    assert found[0] == {CHANNEL} and found[1] == {THINK, FINAL} and found[2] == found[3] == FREE
    assert found[4:7] == [{506}, {CHANNEL}, {FINAL}] and found[7] == FIRST
    found = both_ways(lambda: held(HARMONY, "header"), [CHANNEL, FINAL, *ids(JSON)])
    assert found[:3] == [{CHANNEL}, {THINK, FINAL}, FIRST] and found[-1] == {EOS}


@pytest.mark.parametrize("sections", [ONE, TWO, HARMONY], ids=["one", "two", "harmony"])
def test_thinking_ends_while_there_is_room_for_the_answer(sections):
    tokens: list[int] = []
    make = lambda: held(sections, max_tokens=100)  # noqa: E731
    while allowed(make(), tokens) == FREE:
        tokens.append(5)
    closing = sections.closing or sections.think_end
    assert 30 < len(tokens) < 80
    found = both_ways(make, [*tokens, *closing, *ids(JSON)])
    assert found[len(tokens) :][: len(closing)] == [{token} for token in closing]
    assert found[len(tokens) + len(closing)] == FIRST and found[-1] == {EOS}


def test_an_end_that_the_model_began_is_gone_on_with():
    free = held(TWO, max_tokens=100)
    free.commit([5] * 40)
    free.commit([END])
    while allowed(free) == FREE:
        free.commit([5, END])
    assert allowed(free) == {505}


def run(drafter, max_tokens=90):
    target = schema_runs.target()
    answer = constraint(PERSON, max_tokens)
    cache = RollbackCache(target.model, max_draft=4)
    request = Request(
        schema_runs.PROMPT,
        max_tokens,
        frozenset({EOS}),
        constraints=[AfterThinking(answer, TWO, "reasoning")],
    )
    decoding = Run(target, cache, drafter, Fixed(4 if drafter else 0), request, PhaseTimer())
    tokens = [token for part in decoding.tokens() for token in part]
    return tokens, answer


def test_drafts_change_nothing_across_the_end_of_thinking():
    plain, answer = run(None)
    at = plain.index(505)
    assert plain[at - 1] == END and answer.complete and len(plain) <= 90
    schema_runs.Written(plain[at + 1 :], answer, RunStats()).check(PERSON)
    text = [*schema_runs.PROMPT, *plain]
    drafters = [zoo.Scripted(text, rate, vocab=VOCAB) for rate in (1.0, 0.6, 0.0)]
    for drafter in [*drafters, LookupDrafter(), schema_runs.drafter("model")]:
        assert run(drafter)[0] == plain


@pytest.mark.parametrize("sections", [ONE, TWO, HARMONY])
def test_what_leads_to_the_answer_needs_room_as_well(sections):
    least = _least()
    closing = len(sections.closing or sections.think_end)
    held(sections, max_tokens=least + closing)
    with pytest.raises(UsageError, match=f"ending the thinking takes {closing}"):
        held(sections, max_tokens=least + closing - 1)


@pytest.mark.parametrize("sections", [ONE, TWO])
def test_thinking_is_not_begun_without_room_for_its_end(sections):
    least = _least()
    room = least + len(sections.think_start) + len(sections.think_end)
    assert THINK in allowed(held(sections, "normal", room))
    assert THINK not in allowed(held(sections, "normal", room - 1))


def _least():
    """Tokens of the shortest answer."""
    for n in range(1, 400):
        with contextlib.suppress(UsageError):
            constraint(PERSON, n)
            return n
    raise AssertionError
