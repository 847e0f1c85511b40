"""Costs are measured, measured again where that is due, and only read by runs; a spoilt file is
measured over."""

import importlib.metadata
import json
import random
import stat
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from llm_specdec.backends import plan
from llm_specdec.backends.local import costs, loading, round_costs
from llm_specdec.backends.local.loading import refine_costs
from llm_specdec.backends.notices import shown
from llm_specdec.engine import costs as engine_costs
from llm_specdec.engine import measure
from llm_specdec.engine.costs import Costs, timed
from llm_specdec.engine.hardware import device
from llm_specdec.engine.phases import ENOUGH
from llm_specdec.engine.policy import Auto, Limits
from llm_specdec.engine.session import Weights
from llm_specdec.pairings.registry import Pairing
from llm_specdec.settings import resolve
from tests.support.simulated_device import Device

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


SPOILT = ["{", "[]", "null", "\xff", '{"KEY": 3}', '{"KEY": {"takes": [{}], "begun": {}}}']


@pytest.mark.parametrize("text", SPOILT)
def test_a_spoilt_file_is_measured_over(loaded, path, text):
    path.parent.mkdir()
    path.write_bytes(text.replace("KEY", costs._key(loaded, None)).encode("latin-1"))
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


TRUE = {1: 46.0, 2: 50.0, 3: 58.0, 4: 64.0, 5: 70.0, 8: 86.0}  # what passes take, by width
PARTS = 2  # of a measurement
UNLIKE = {1: 1.5, 2: 1.0}.__getitem__  # plain steps are slower than measured, drafts are not


class Simulated(Loaded):
    """A session on a simulated device whose passes never take the same time twice. poison: by
    what factor passes of a width took too long, for each measurement; later ones are sound."""

    def __init__(self, folder, monkeypatch, poison):
        super().__init__(folder)
        self.poison, self.random = poison, random.Random(7)
        device: Any = Device(0.0, self.seconds)
        for module in (measure, engine_costs):
            monkeypatch.setattr(module, "mx", device)
        monkeypatch.setattr(measure, "timed", partial(timed, clock=device.clock))
        self.curve = partial(measure._verify_curve, device, device, 128, list(TRUE)[1:])

    def noise(self):
        return 1 + self.random.uniform(0, 0.02)

    def seconds(self, width):
        wrong = dict(enumerate(self.poison)).get(len(self.parts) // PARTS, {})
        return TRUE[width] * wrong.get(width, 1.0) * self.noise()

    def measure(self, kv_bits, known):
        for part in ("verify 0", "verify 1"):
            if part not in known:
                curve = self.curve()
                self.parts.append(part)
                yield part, curve

    def costs(self, parts):
        curves = tuple(parts.values())
        return Costs((128, 2048), curves, {}) if len(curves) == PARTS else None

    def truth(self, width):
        return engine_costs.interpolated(TRUE, width)

    def run(self, known, accepted):
        """The widths of a run of 96 rounds in which `auto` goes by what is known."""
        policy, widths = Auto(known, Limits({"lookup": 7})), Counter[int]()
        for _ in range(96):
            pick = policy.pick(["lookup"], 128)
            right = [self.random.random() < accepted for _ in range(pick.length)]
            policy.observe("lookup", pick.length, [*right, False].index(False), pick)
            widths[pick.length + 1] += 1
        return [width for width, rounds in widths.items() if rounds >= ENOUGH]


def answers(session, n, accepted=0.4, slow=lambda width: 1.0):
    """What comes after each of n answers."""
    for _ in range(n):
        if known := costs.stored(session):
            passes = {
                w: session.truth(w) * session.noise() * slow(w)
                for w in session.run(known, accepted)
            }
            costs.observe(session, known, passes, 128)
        if costs.wanting(session):
            costs.measured(session, seconds=-1)


def sound(session):
    """Whether all costs are those of an undisturbed device, within 3 %."""
    found: Any = costs.stored(session)
    return all(curve == pytest.approx(TRUE, rel=0.03) for curve in found.verify)


@pytest.fixture
def simulated(tmp_path, loaded, path, monkeypatch):
    return lambda *poison: Simulated(tmp_path, monkeypatch, poison)


@pytest.mark.parametrize("disturbed", [0, 1])
def test_costs_that_were_measured_in_a_disturbed_moment_mend(simulated, disturbed):
    session = simulated(*[{}] * disturbed, {3: 2.0, 1: 1.2})
    answers(session, PARTS)
    assert sound(session) == bool(disturbed)
    answers(session, PARTS)
    assert sound(session)  # of two the lesser counts
    answers(session, PARTS)
    assert sound(session)
    answers(session, 20)
    assert sound(session) and len(session.parts) == 3 * PARTS


def test_costs_that_every_measurement_had_wrong_mend_by_what_rounds_take(simulated):
    """The device was the same in both, and is another since."""
    session = simulated({1: 0.75}, {1: 0.75})
    answers(session, 2 * PARTS)
    assert not sound(session)
    answers(session, 12)
    assert sound(session)
    before = len(session.parts)
    answers(session, 20)
    assert sound(session) and len(session.parts) == before


def test_sound_costs_stay_as_they_are_also_on_a_busy_machine(simulated):
    session = simulated()
    answers(session, 2 * PARTS)
    found: Any = costs.stored(session)
    for accepted in (0.2, 0.5, 0.8):
        answers(session, 20, accepted, slow=lambda width: 1.7)
    assert costs.stored(session) == found and sound(session)
    assert len(session.parts) == 2 * PARTS


def test_rounds_that_never_agree_are_heeded_ever_less_often(simulated):
    session = simulated()
    answers(session, 100, accepted=0.0, slow=UNLIKE)
    assert 3 * PARTS <= len(session.parts) <= 12 * PARTS
    assert sound(session)


def test_a_run_that_agrees_ends_the_count_of_those_that_do_not(simulated):
    session = simulated()
    answers(session, 2 * PARTS)
    for _ in range(4):
        answers(session, costs.PATIENCE - 1, accepted=0.0, slow=UNLIKE)
        answers(session, 1, accepted=0.0)
    assert len(session.parts) == 2 * PARTS


def test_after_an_answer_what_is_wanting_is_measured_and_that_is_said(simulated, monkeypatch):
    session = simulated()
    monkeypatch.setattr(loading, "SLACK", -1)
    pairing = Pairing("p", ".", drafter="lookup", kind="lookup")
    planned = plan(pairing, None, resolve(pairing, None, options={}))

    def said(passes):
        ready = loading.Loaded(session, costs.stored(session))
        return len(list(refine_costs(planned, ready, passes, 128, lambda: False)))

    assert [said({}) for _ in range(5)] == [1] * 2 * PARTS + [0]
    unlike = {1: 1.0, 2: 3.0}
    assert [said(unlike) for _ in range(4)] == [0] * (costs.PATIENCE - 1) + [1, 1]


def test_with_a_seed_what_was_measured_first_counts(simulated):
    session = simulated({1: 1.2})
    answers(session, PARTS)
    first = costs.stored(session)
    answers(session, 2 * PARTS)
    assert costs.stored(session) != first
    assert found(session)[0] == first
