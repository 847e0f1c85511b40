"""The hot tier: what it finds, what it lets go."""

import mlx.core as mx
import pytest

from llm_specdec.engine.states import Entry
from llm_specdec.prefix_cache.keys import Key
from llm_specdec.prefix_cache.ram import RamTier

KEY, OTHER = Key({"target": "a"}), Key({"target": "b"})
SIZE = 400  # bytes of an entry


def entry(*tokens, exact=False):
    return Entry(tokens, [mx.zeros((60,))], [mx.zeros((40,))], exact)


@pytest.fixture
def tier():
    return RamTier(cap=3 * SIZE)


def test_finds_the_longest_usable_prefix_of_either_sort(tier):
    tier.put(KEY, entry(1, 2, 3, 4, 5))
    tier.put(KEY, entry(1, 2, 3, exact=True))
    assert tier.longest(KEY, [1, 2, 9]).length == 1
    assert tier.longest(KEY, [1, 2, 3, 9]).length == 2
    assert tier.longest(KEY, [1, 2, 3, 4, 9]).entry.tokens == (1, 2, 3, 4, 5)
    tier.put(KEY, entry(7, 8, 9, exact=True))
    assert tier.longest(KEY, [7, 8, 9]).length == 2
    assert tier.longest(KEY, [7, 8, 1]) is None


def test_another_key_never_hits(tier):
    tier.put(KEY, entry(1, 2, 3))
    assert tier.longest(OTHER, [1, 2, 3]) is None


def test_nothing_up_to_what_another_tier_has(tier):
    tier.put(KEY, entry(1, 2, 3))
    assert tier.longest(KEY, [1, 2, 3], beyond=1).length == 2
    assert tier.longest(KEY, [1, 2, 3], beyond=2) is None


def test_drops_the_least_recently_used_beyond_its_cap(tier):
    for first in (1, 2, 3):
        tier.put(KEY, entry(first, 0, exact=first == 2))
    tier.longest(KEY, [1, 0])  # now 2 is the oldest
    tier.put(KEY, entry(4, 0))
    assert tier.nbytes == 3 * SIZE
    assert [bool(tier.longest(KEY, [first, 0])) for first in (1, 2, 3, 4)] == [1, 0, 1, 1]


def test_one_that_is_larger_than_the_cap_is_not_kept():
    tier = RamTier(cap=SIZE - 1)
    tier.put(KEY, entry(1, 2))
    assert len(tier) == 0


def test_a_longer_state_takes_the_place_of_those_it_can_be_cut_to(tier):
    tier.put(KEY, entry(1, 2))
    tier.put(KEY, entry(1, 2, 3, exact=True))
    tier.put(KEY, entry(1, 2, 3, 4))
    assert len(tier) == 2
    tier.put(KEY, entry(1, 2, 3))  # adds nothing
    assert len(tier) == 2
    assert tier.longest(KEY, [1, 2, 3, 4]).entry.tokens == (1, 2, 3, 4)


@pytest.mark.parametrize(("tail", "left"), [(4, 1), (5, 2)])
def test_an_entry_that_another_has_seven_eighths_of_makes_way(tier, tail, left):
    """The next turn, or another question about the same document."""
    document = range(32 - tail)
    tier.put(KEY, entry(*document, *[90] * tail))
    tier.put(KEY, entry(*document, *[91] * 40))
    assert len(tier) == left
    assert tier.longest(KEY, [*document, 92]).length == 31 - tail


def test_the_same_tokens_are_kept_once(tier):
    for exact in (True, True, False, False):
        tier.put(KEY, entry(1, 2, 3, exact=exact))
    assert (len(tier), tier.nbytes) == (2, 2 * SIZE)
    tier.limit(SIZE)
    assert (len(tier), tier.nbytes) == (1, SIZE)
