"""Round for round equal to the PyPI package `dflash`, where that is installed."""

import pytest

pytest.importorskip("dflash.model_mlx", reason="pip install --no-deps dflash==0.1.0")

from benchmarks import dflash_parity

SLIDING = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 256}


@pytest.mark.parametrize("fields", [{}, SLIDING], ids=["full", "sliding"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("family", dflash_parity.TINY_TARGETS)
def test_drafts_and_kept_tokens_equal_the_packages(family, version, fields):
    ours, theirs = dflash_parity.tiny_rounds(family, version, fields, block=6, max_tokens=20)
    assert ours == theirs
    assert len(ours) > 10
