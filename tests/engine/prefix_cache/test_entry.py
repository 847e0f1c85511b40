"""What an entry is usable for."""

import mlx.core as mx
import pytest

from llm_specdec.engine.prefix_cache import Entry, Key, usable


@pytest.mark.parametrize(
    ("prompt", "trims", "exact"),
    [
        ([1, 2, 3, 4], 3, 3),  # the same: the last token is read again
        ([1, 2, 3, 4, 5], 3, 3),  # more
        ([1, 2, 3, 9, 9], 2, 0),  # another end
        ([1, 2, 3], 2, 0),  # less
        ([1, 2], 1, 0),
        ([1], 0, 0),
        ([9, 2, 3, 4], 0, 0),  # another beginning
        ([], 0, 0),
    ],
)
def test_a_prompt_uses_what_it_has_in_common_less_one_token(prompt, trims, exact):
    assert usable((1, 2, 3, 4), False, prompt) == trims
    assert usable((1, 2, 3, 4), True, prompt) == exact


def test_an_entry_knows_its_length_and_size():
    entry = Entry((5, 6, 7), [mx.zeros((2, 3)), mx.zeros((0,))], [mx.zeros((4,))], exact=False)
    assert (entry.length, entry.nbytes) == (2, 4 * (6 + 4))


def test_a_key_depends_on_every_part_and_not_on_their_order():
    key = Key({"target": "a", "mlx": "0.32"})
    assert key.digest == Key({"mlx": "0.32", "target": "a"}).digest
    others = [{"target": "b", "mlx": "0.32"}, {"target": "a", "mlx": "0.33"}, {"target": "a"}]
    assert len({key.digest, *(Key(parts).digest for parts in others)}) == 4
