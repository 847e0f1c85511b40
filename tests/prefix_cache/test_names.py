import random

import pytest

from llm_specdec.prefix_cache.folder import ENTRY
from llm_specdec.prefix_cache.matching import common
from llm_specdec.prefix_cache.names import agreed, covered, lengths, marks_of, name_of


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 32, 33, 2150, 1_000_000])
def test_a_name_has_few_marks_evenly_spread_and_one_of_all(n):
    found = lengths(n)
    assert found[-1] == n
    assert len(found) <= 17
    step = found[0]
    assert found[:-1] == tuple(range(step, n, step))
    assert n <= 16 or n / 16 <= step < n / 8


def test_marks_tell_the_common_beginning_to_the_step():
    draw = random.Random(1)
    for _ in range(500):
        tokens = tuple(draw.randrange(9) for _ in range(draw.randrange(1, 100)))
        prompt = (*tokens[: draw.randrange(100)], *(draw.randrange(9) for _ in range(30)))
        sure = agreed(name_of(tokens, False), marks_of(prompt), len(prompt))
        same = common(tokens, prompt)
        step = lengths(len(tokens))[0]
        assert sure == (same if same == len(tokens) else same - same % step)
        whole = agreed(name_of(tokens, True), marks_of(prompt), len(prompt))
        assert whole == (len(tokens) if same == len(tokens) else 0)


def test_only_entries_that_can_be_cut_are_covered():
    mark = marks_of((1, 2, 3, 4))
    assert covered(name_of((1, 2, 3), False), mark, 4)
    assert not covered(name_of((1, 2, 3), True), mark, 4)
    assert not covered(name_of((1, 2, 4), False), mark, 4)
    assert not covered(name_of((1, 2, 3, 4, 5), False), mark, 4)


def test_an_entry_that_differs_in_its_last_eighth_is_covered():
    mark, other = marks_of(range(64)), tuple(range(100, 164))
    for same, as_much in ((64, True), (56, True), (52, False), (0, False)):
        name = name_of((*range(same), *other)[:64], False)
        assert covered(name, mark, 64) is as_much


def test_the_longest_name_fits_every_file_system():
    name = name_of(range(1_000_000), False)
    assert ENTRY.fullmatch(name)
    assert len(f".{name}.new") < 140


@pytest.mark.parametrize(
    "file",
    ["", "-", "t-", "3t", "3t-", "3y-000000000000.safetensors", "x3t-0000.safetensors",
     "0t-0000.safetensors", "٣t-000000000000.safetensors", "3t-0000\n.safetensors"],
)  # fmt: skip
def test_other_names_agree_with_nothing(file):
    assert agreed(file, lambda n: "0000", 10) == 0
