"""A head alone drafts what mlx_vlm's implementation drafts with it: logits and whole generations,
as they were recorded (`benchmarks.heads_parity` compares with the real one)."""

from itertools import product

import mlx.core as mx
import pytest

from fixtures import head_reference as scripts
from llm_specdec.drafters.common.language_model import load
from llm_specdec.drafters.mtp.loading import load_head

RECORDED = dict(scripts.recorded())


@pytest.mark.parametrize("name", scripts.CASES)
def test_logits_are_the_references_within_rounding(name, tmp_path):
    target, head = scripts.write(name, tmp_path)
    logits = scripts.rows(load_head(head, load(target)))
    assert mx.allclose(logits, mx.array(RECORDED[name]["logits"]), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "predictable", "depth"), product(scripts.CASES, (False, True), scripts.DEPTHS)
)
def test_whole_generations_propose_what_the_reference_does(name, predictable, depth, tmp_path):
    folder, head = scripts.write(name, tmp_path, predictable=predictable)
    target = load(folder)
    drafts = scripts.proposals(target, load_head(head, target), depth)
    assert drafts == RECORDED[name]["proposals"][scripts.title(predictable, depth)]
    assert len(drafts) > 10
