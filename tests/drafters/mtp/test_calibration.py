"""A head is read with the hidden states that it was made for."""

from dataclasses import replace

import pytest

from fixtures import heads
from llm_specdec.drafters.common import own_answers
from llm_specdec.drafters.common.language_model import load
from llm_specdec.drafters.mtp import calibration
from llm_specdec.drafters.mtp.loading import load_head

TEXT = [3]
while len(TEXT) < 60:
    TEXT.append(heads.following(TEXT[-1]))


def test_acceptance_is_what_drafting_one_token_gets(tmp_path):
    case = heads.CASES["llama"]
    case = replace(case, changes={"vocab_size": heads.TOKENS})
    heads.write(case, tmp_path / "target", heads.disguise)
    target = load(tmp_path / "target")
    drafter = load_head(tmp_path / "target", target)
    found = calibration.acceptance(drafter, target, TEXT[:5], TEXT[5:])
    right = [token not in heads.LEADS_ASTRAY for token in TEXT[4:-2]]
    assert found["final_norm"] == pytest.approx(sum(right) / len(right))
    assert found["last_layer"] < found["final_norm"]


def test_the_layouts_own_reading_stays_unless_another_is_clearly_better():
    better = own_answers.better
    assert better({"final_norm": 0.50, "last_layer": 0.51}, "final_norm") == "final_norm"
    assert better({"final_norm": 0.50, "last_layer": 0.60}, "final_norm") == "last_layer"
    assert better({"final_norm": 0.60, "last_layer": 0.50}, "last_layer") == "final_norm"


def test_the_reading_decides_the_tap(tmp_path):
    heads.write(heads.CASES["qwen3_5"], tmp_path / "target")
    target = load(tmp_path / "target")
    taps = [load_head(tmp_path / "target", target, reads).taps for reads in ("", "last_layer")]
    assert taps == [("final_norm",), (3,)]
