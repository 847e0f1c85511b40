"""One look-up over memory and disk."""

import mlx.core as mx
import pytest

from llm_specdec.engine.states import Entry
from llm_specdec.prefix_cache.keys import Key
from llm_specdec.prefix_cache.lookup import PrefixCache
from llm_specdec.prefix_cache.ram import RamTier

KEY = Key({})


class Counted(RamTier):
    """Stands for a disk: counts what is asked of it."""

    def __init__(self):
        super().__init__(1 << 20)
        self.asked = []

    def longest(self, key, prompt, beyond=0):
        self.asked.append(beyond)
        return super().longest(key, prompt, beyond)


@pytest.fixture
def cache():
    return PrefixCache(KEY, RamTier(1 << 20), Counted(), least=3)


def entry(n, exact=False):
    return Entry(tuple(range(n)), [mx.zeros((4,))], [], exact)


def test_the_longer_of_both_is_used(cache):
    cache.keep([entry(6)])
    cache.store([entry(9)])
    assert cache.longest(range(20)).length == 8
    assert cache.longest(range(5)).length == 4


def test_disk_is_asked_only_for_more(cache):
    cache.keep([entry(6)])
    assert cache.longest([*range(6), 90, 91]).length == 5
    assert cache.longest(range(6)).length == 5  # a prompt of six tokens can use no more
    assert cache.disk.asked == [5]


def test_what_was_on_disk_is_hot_from_then_on(cache):
    cache.store([entry(9)])
    assert cache.longest(range(9)).length == 8
    assert cache.longest(range(9)).length == 8
    assert cache.disk.asked == [2]


def test_short_states_are_not_kept_on_disk_and_used_for_their_own_prompt_alone(cache):
    cache.keep([entry(3), entry(9)])
    cache.store([entry(3)])
    assert (len(cache.hot), len(cache.disk)) == (1, 0)  # one holds both
    assert cache.longest([0]) is None
    assert cache.longest([0, 1, 2]).length == 2
    assert cache.longest([0, 1, 90]) is None
    assert cache.disk.asked == []  # nothing so short is there
    assert cache.longest([0, 1, 2, 90]) is None
    assert cache.longest([0, 1, 2, 3, 90]).length == 3


def test_without_a_disk_there_is_memory(cache):
    cache = PrefixCache(KEY, RamTier(1 << 20), least=3)
    assert cache.longest(range(9)) is None
    cache.keep([entry(9)])
    cache.store([entry(9)])
    assert cache.longest(range(9)).length == 8
