"""Costs are measured once and then only read; a spoilt file is measured over."""

import stat
from types import SimpleNamespace

import pytest

from llm_specdec.backends import costs
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.session import Weights

CURVE = {1: 1.0, 2: 1.5}
MEASURED = Costs((128, 2048), (CURVE, CURVE), {"model": (CURVE, CURVE)})


class Loaded:
    def __init__(self, folder, outcome=MEASURED):
        self.weights = Weights(folder, "lookup")
        self.longest = 3
        self.measured = 0
        self.outcome = outcome

    def costs(self, kv_bits):
        self.measured += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "checkpoint", SimpleNamespace(fingerprint=lambda folder: "f" * 64))
    return Loaded(tmp_path)


def test_costs_are_measured_once(loaded, tmp_path):
    path = tmp_path / "specdec" / "costs.json"
    assert costs.costs_for(loaded, path=path) == MEASURED
    assert costs.costs_for(loaded, path=path) == MEASURED
    assert loaded.measured == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_recalibrating_measures_anew(loaded, tmp_path):
    path = tmp_path / "costs.json"
    costs.costs_for(loaded, path=path)
    costs.costs_for(loaded, path=path, anew=True)
    assert loaded.measured == 2


def test_another_precision_is_another_measurement(loaded, tmp_path):
    path = tmp_path / "costs.json"
    costs.costs_for(loaded, path=path)
    costs.costs_for(loaded, kv_bits=8, path=path)
    assert loaded.measured == 2


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"k": 3}', "\xff"])
def test_a_spoilt_file_is_measured_over(loaded, tmp_path, text):
    path = tmp_path / "costs.json"
    path.write_bytes(text.encode("latin-1"))
    assert costs.costs_for(loaded, path=path) == MEASURED
    assert costs.costs_for(loaded, path=path) == MEASURED
    assert loaded.measured == 1


def test_a_short_answer_takes_stored_costs_but_measures_none(loaded, tmp_path):
    path = tmp_path / "costs.json"
    assert costs.costs_for(loaded, path=path, measure=False) is None
    costs.costs_for(loaded, path=path)
    assert costs.costs_for(loaded, path=path, measure=False) == MEASURED
    assert loaded.measured == 1


def test_failure_to_measure_is_no_error(tmp_path, loaded):
    loaded.outcome = RuntimeError("out of memory")
    path = tmp_path / "costs.json"
    assert costs.costs_for(loaded, path=path) is None
    assert not path.exists()
