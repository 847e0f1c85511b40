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
