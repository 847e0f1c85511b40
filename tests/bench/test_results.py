import json

import pytest

from llm_specdec.bench.results import redact
from llm_specdec.bench.runs import perform
from llm_specdec.bench.store import Store
from tests.support.scripted_bench import SEED, Scripted, plan, progress


@pytest.fixture
def found(tmp_path):
    return perform(plan(), Scripted(SEED), Store(tmp_path / "bench.db"), progress()[0])


def test_a_result_is_finite_json(found):
    json.dumps(found, allow_nan=False)


def test_redaction_leaves_figures_and_fingerprints_but_no_name(found):
    found["verdict"]["reasons"] = ["see someone/Secret-27B-4bit and Secret-27B-4bit"]
    shown = redact(found)
    text = json.dumps(shown)
    for secret in ("someone", "Secret", "/models", "secret-drafter", '"qwen"'):
        assert secret not in text
    model = shown["conditions"]["models"]["target"]
    assert model["name"] == "qwen3_5 4-bit g64 0123456789ab"
    assert model["architecture"] == "qwen3_5"  # not taken for the pairing's name
    assert shown["cases"][0]["configs"][1]["config"] == "pairing-1"
    assert shown["cases"][0]["configs"][1]["gain"] == found["cases"][0]["configs"][1]["gain"]
