"""Memory of the device, by simulated answers of mlx: neither GPU is here to ask."""

import mlx.core as mx
import pytest

from llm_specdec.engine.hardware import device


@pytest.fixture
def wired(monkeypatch):
    limits: list[int] = []
    monkeypatch.setattr(mx, "set_wired_limit", limits.append)
    return limits


def test_on_apple_silicon_the_recommended_working_set_is_wired(monkeypatch, wired):
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    monkeypatch.setattr(device, "info", lambda: {"max_recommended_working_set_size": 48 << 30})
    device.wire()
    assert wired == [48 << 30]


@pytest.mark.parametrize("info", [{}, {"free_memory": 1 << 30, "total_memory": 2 << 30}])
def test_elsewhere_nothing_is_wired(monkeypatch, wired, info):
    monkeypatch.setattr(device, "info", lambda: info)
    device.wire()
    assert wired == []
