"""Whole generations propose what mlx_vlm's `eagle3` proposes in them, as it was recorded
(`benchmarks.eagle3_parity` compares with the real one)."""

from itertools import product

import mlx.core as mx
import pytest

from fixtures import eagle3_reference as scripts

RECORDED = scripts.recorded()


@pytest.mark.parametrize(("name", "depth"), product(scripts.CASES, scripts.DEPTHS))
def test_whole_generations_propose_what_the_reference_does(name, depth, tmp_path):
    target, folder = scripts.CASES[name].write(tmp_path)
    rounds, logits = scripts.played(target, scripts.ours(target, folder), depth)
    expected = RECORDED[name][str(depth)]
    assert rounds == expected["proposals"] and len(rounds) > 10
    last = mx.array(expected["last"])
    assert mx.allclose(mx.stack(logits[-depth:]), last, rtol=0, atol=1e-4)
