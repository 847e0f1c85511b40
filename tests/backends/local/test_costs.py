"""Costs are measured once and then only read; a spoilt file is measured over."""

import importlib.metadata
import json
import stat
from dataclasses import replace
from types import SimpleNamespace

import pytest

from llm_specdec.backends import plan
from llm_specdec.backends.local import costs, round_costs
from llm_specdec.backends.notices import shown
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.hardware import device
from llm_specdec.engine.session import Weights
from llm_specdec.pairings.registry import Pairing
from llm_specdec.settings import resolve

CURVE = {1: 1.0, 2: 1.5}
MEASURED = Costs((128, 2048), (CURVE, CURVE), {"model": (CURVE, CURVE)})


class Loaded:
    def __init__(self, folder, outcome=MEASURED):
        self.weights = Weights(folder, "lookup")
        self.longest = 3
        self.measured = 0
        self.parts: list[str] = []
        self.outcome = outcome

    def measure(self, kv_bits, known):
        self.measured += 1
        for part in ("verify 0", "verify 1"):
            if isinstance(self.outcome, Exception):
                raise self.outcome
            if part not in known:
                self.parts.append(part)
                yield part, CURVE

    def costs(self, parts):
        return self.outcome if len(parts) == 2 else None


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "checkpoint", SimpleNamespace(fingerprint=lambda folder: "f" * 64))
    return Loaded(tmp_path)


@pytest.fixture
def path(llm_user):
    return llm_user / "specdec" / "costs.json"


def found(loaded, asked="measured", anew=False, **options):
    """What a run that asks for costs so gets, and whether it said that it measures."""
    pairing = Pairing("p", ".", drafter="lookup", kind="lookup")
    planned = replace(plan(pairing, None, resolve(pairing, None, options=options)), costs=asked)
    said: list[str] = []
    return shown(round_costs(planned, loaded, anew), said.append), bool(said)


def test_costs_are_measured_once(loaded, path):
    assert found(loaded) == (MEASURED, True)
    assert found(loaded) == (MEASURED, False)
    assert loaded.measured == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_recalibrating_measures_anew(loaded, path):
    found(loaded)
    found(loaded, asked="stored", anew=True)
    assert loaded.measured == 2


def test_another_precision_is_another_measurement(loaded, path):
    found(loaded)
    found(loaded, kv_bits=8)
    assert loaded.measured == 2


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"k": 3}', "\xff"])
def test_a_spoilt_file_is_measured_over(loaded, path, text):
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    assert [found(loaded), found(loaded)] == [(MEASURED, True), (MEASURED, False)]


def test_a_short_answer_takes_stored_costs_but_measures_none(loaded, path):
    assert found(loaded, asked="stored") == (None, False)
    found(loaded)
    assert found(loaded, asked="stored") == (MEASURED, False)
    assert loaded.measured == 1


def test_failure_to_measure_is_no_error(path, loaded):
    loaded.outcome = RuntimeError("out of memory")
    assert found(loaded) == (None, True)
    assert not path.exists()


def test_measuring_after_an_answer_goes_on_where_it_stopped(loaded, path):
    assert found(loaded, asked="afterwards") == (None, False)
    for n in (1, 2):
        assert loaded.parts == ["verify 0", "verify 1"][: n - 1]
        costs.measured(loaded, seconds=-1)
    assert loaded.parts == ["verify 0", "verify 1"]
    assert found(loaded, asked="afterwards") == (MEASURED, False)
    assert list(json.loads(path.read_text())) == [costs._key(loaded, None)]


def test_a_cancelled_measurement_gives_no_costs(loaded, path):
    assert costs.measured(loaded, cancelled=lambda: True) is None
    assert costs.stored(loaded) is None


def test_who_waits_for_figures_has_them_measured_at_once(loaded):
    pairing = Pairing("p", ".", drafter="lookup", kind="lookup")
    planned = plan(pairing, None, resolve(pairing, None, options={}))
    assert planned.costs == "afterwards"
    assert shown(round_costs(planned, loaded, waits=True), lambda text: None) == MEASURED


@pytest.mark.parametrize("what", ["mlx", "mlx-lm", "power"])
def test_another_version_or_power_mode_is_another_measurement(loaded, path, monkeypatch, what):
    found(loaded)
    if what == "power":
        monkeypatch.setattr(device, "power_mode", lambda: "low")
    else:
        own = importlib.metadata.version
        monkeypatch.setattr(costs, "version", lambda name: "0.0" if name == what else own(name))
    assert costs.stored(loaded) is None
