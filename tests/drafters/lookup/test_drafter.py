"""Prompt lookup proposes what followed the longest earlier match."""

from hypothesis import given
from hypothesis import strategies as st

from llm_specdec.drafters.lookup.drafter import MIN_MATCH, LookupDrafter


def told(tokens):
    drafter = LookupDrafter()
    drafter.start(tokens[0])
    drafter.extend(tokens[1:], {})
    return drafter


def proposal(drafter, k):
    return drafter.propose(k, draw=None).tokens.tolist()


def test_the_continuation_of_the_match_is_proposed():
    drafter = told([1, 2, 3, 4, 5, 9, 1, 2, 3])
    assert drafter.ready()
    assert proposal(drafter, 2) == [4, 5]


def test_a_longer_match_wins_over_a_later_one():
    drafter = told([7, 1, 2, 3, 10, 8, 1, 2, 3, 20, 7, 1, 2, 3])
    assert proposal(drafter, 1) == [10]


def test_of_equal_matches_the_latest_wins():
    drafter = told([1, 2, 3, 10, 0, 1, 2, 3, 20, 5, 1, 2, 3])
    assert proposal(drafter, 1) == [20]


def test_a_short_match_is_trusted_for_a_short_draft_only():
    tail = list(range(100, 140))
    assert len(proposal(told([1, 2, 3, *tail, 1, 2, 3]), 32)) == MIN_MATCH
    start = list(range(10))
    assert len(proposal(told([*start, *tail, *start]), 32)) == 32


def test_without_a_match_there_is_nothing_to_propose():
    assert not told([1, 2, 3, 4, 5]).ready()
    assert not told([1]).ready()


def test_a_match_that_is_too_short_for_the_caller_is_no_proposal():
    drafter = LookupDrafter(least=5)
    drafter.start(1)
    drafter.extend([2, 3, 4, 5, 9, 1, 2, 3, 4], {})
    assert not drafter.ready()
    drafter.extend([5], {})
    assert drafter.ready()
    assert proposal(drafter, 1) == [9]


def test_a_restored_index_proposes_the_same():
    tokens = [1, 2, 3, 4, 5, 9, 1, 2, 3]
    restored = LookupDrafter()
    restored.load_state([], tokens)
    assert proposal(restored, 3) == proposal(told(tokens), 3)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 20))
def test_a_proposal_always_stood_behind_the_newest_tokens_once(tokens, k):
    drafter = told(tokens)
    suffix = tokens[-MIN_MATCH:]
    places = [
        i
        for i in range(MIN_MATCH, len(tokens))
        if tokens[i - MIN_MATCH : i] == suffix and len(suffix) == MIN_MATCH
    ]
    assert drafter.ready() == bool(places)
    if places:
        drafts = proposal(drafter, k)
        assert 1 <= len(drafts) <= k
        assert any(tokens[i : i + len(drafts)] == drafts for i in places)
