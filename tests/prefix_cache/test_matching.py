"""What an entry is usable for."""

import pytest

from llm_specdec.prefix_cache.matching import usable


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
