import json
import platform

from llm_specdec.bench import machine


def test_machine_and_state_are_plain_and_name_no_host():
    found = {"machine": machine.machine(), "state": machine.state(), "of": machine.versions()}
    text = json.dumps(found, allow_nan=False)
    assert platform.node() not in text or not platform.node()
    assert found["machine"]["cores"] >= 1 and found["machine"]["memory_bytes"] > 2**20
    assert found["of"]["mlx"] and found["of"]["llm"]


def test_what_a_system_cannot_tell_is_none():
    def missing():
        raise FileNotFoundError

    assert machine._quietly(missing) is None


def test_cores_that_others_use_are_counted_and_ones_own_are_not(monkeypatch):
    """Of 4 s on two cores, 3 busy and 1 of these this process's."""
    times = iter([(10.0, 2.0, 50.0), (13.0, 3.0, 54.0)])
    monkeypatch.setattr(machine, "_cpu_seconds", lambda: next(times))
    monkeypatch.setattr(machine, "WATCHED", 0.0)
    assert machine.Watch().others() == 0.5


def test_real_cpu_times_make_a_share():
    busy, own, total = machine._cpu_seconds()
    assert 0 < own <= busy < total
    assert machine.Watch().others() == 0.0  # too early to tell
    assert 0.0 <= machine.others_now() <= 1.0
