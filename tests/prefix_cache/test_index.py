"""Sequences by their beginnings, against a search through all of them."""

import random

from llm_specdec.prefix_cache.index import Index
from llm_specdec.prefix_cache.matching import common


def filled(sequences):
    index = Index()
    for tokens in sequences:
        index.add(tokens)
    return index


def test_finds_what_a_search_through_all_finds():
    draw = random.Random(5)

    def sequence():
        return tuple(draw.randrange(2) for _ in range(draw.randrange(1, 9)))

    for _ in range(300):
        held = [sequence() for _ in range(draw.randrange(12))]
        index = filled(held)
        for gone in held[::3]:
            if gone in index:
                index.remove(gone)
                held = [tokens for tokens in held if tokens != gone]
        prompt = sequence()
        nearest, whole = index.nearest(prompt), index.whole(prompt)
        most = max((common(tokens, prompt) for tokens in held), default=0)
        assert (common(nearest, prompt) if nearest else 0) == most
        prefixes = [tokens for tokens in held if prompt[: len(tokens)] == tokens]
        assert whole == max(prefixes, key=len, default=None)


def test_a_whole_sequence_is_found_behind_others_that_lead_astray():
    index = filled([(1,), (1, 2, 0), (1, 2, 0, 5)])
    assert index.whole((1, 2, 3)) == (1,)
    assert index.nearest((1, 2, 3)) == (1, 2, 0, 5)


def test_nothing_in_common_is_nothing_found():
    index = filled([(4, 4), (6,)])
    assert index.nearest((5, 1)) is None
    assert index.whole((5, 1)) is None
    assert Index().nearest((1,)) is None
