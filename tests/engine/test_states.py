"""An entry and its file."""

import mlx.core as mx

from llm_specdec.engine.states import Entry


def test_an_entry_knows_its_length_and_size():
    entry = Entry((5, 6, 7), [mx.zeros((2, 3)), mx.zeros((0,))], [mx.zeros((4,))], exact=False)
    assert (entry.length, entry.nbytes) == (2, 4 * (6 + 4))
