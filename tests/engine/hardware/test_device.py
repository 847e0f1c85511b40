"""Memory of the device, by simulated answers of mlx: neither GPU is here to ask."""

import subprocess
import sys
from types import SimpleNamespace

import mlx.core as mx
import pytest

from llm_specdec.engine.hardware import device


@pytest.fixture
def wired(monkeypatch):
    limits: list[int] = []
    monkeypatch.setattr(mx, "set_wired_limit", limits.append)
    return limits


def test_on_apple_silicon_the_recommended_working_set_is_wired_while_anything_runs(
    monkeypatch, wired
):
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    monkeypatch.setattr(device, "info", lambda: {"max_recommended_working_set_size": 48 << 30})
    one, other = device.wired(), device.wired()
    one.__enter__()
    other.__enter__()  # they take turns, and the first ends first
    one.__exit__(None, None, None)
    assert wired == [48 << 30]
    other.__exit__(None, None, None)
    assert wired == [48 << 30, 0]
    with pytest.raises(KeyboardInterrupt), device.wired():
        raise KeyboardInterrupt
    assert wired[2:] == [48 << 30, 0]


@pytest.mark.parametrize("info", [{}, {"free_memory": 1 << 30, "total_memory": 2 << 30}])
def test_elsewhere_nothing_is_wired(monkeypatch, wired, info):
    monkeypatch.setattr(device, "info", lambda: info)
    with device.wired():
        pass
    assert wired == []


GB = 1 << 30


@pytest.mark.parametrize(
    ("info", "resident", "limit"),
    [
        ({"max_recommended_working_set_size": 48 * GB}, 15 * GB, 48 * GB),
        ({"free_memory": 23 * GB, "total_memory": 24 * GB}, 0, 23 * GB),
        ({"free_memory": 8 * GB, "total_memory": 24 * GB}, 15 * GB, 23 * GB),
        ({"free_memory": 20 * GB, "total_memory": 24 * GB}, 15 * GB, 24 * GB),
        ({"total_memory": 24 * GB}, 15 * GB, 24 * GB),
        ({}, 15 * GB, None),
    ],
)
def test_what_this_process_holds_of_a_cuda_card_is_no_less_free(monkeypatch, info, resident, limit):
    """A second prompt must not be refused because the first one's weights are still loaded."""
    gpu = SimpleNamespace(type=mx.DeviceType.gpu)
    monkeypatch.setattr(mx, "default_device", lambda: gpu)
    monkeypatch.setattr(mx, "get_cache_memory", lambda: 0)
    monkeypatch.setattr(device, "info", lambda: info)
    assert device.memory_limit(resident) == limit


def test_buffers_that_mlx_keeps_for_reuse_are_free(monkeypatch):
    gpu = SimpleNamespace(type=mx.DeviceType.gpu)
    monkeypatch.setattr(mx, "default_device", lambda: gpu)
    monkeypatch.setattr(mx, "get_cache_memory", lambda: 3 * GB)
    monkeypatch.setattr(device, "info", lambda: {"free_memory": 2 * GB, "total_memory": 24 * GB})
    assert device.memory_limit() == 5 * GB


def test_on_the_cpu_no_limit_of_a_device_counts():
    assert device.memory_limit(GB) is None


def test_only_a_cuda_card_has_a_memory_of_its_own(monkeypatch):
    assert device.card_memory() is None
    monkeypatch.setattr(mx, "default_device", lambda: SimpleNamespace(type=mx.DeviceType.gpu))
    monkeypatch.setattr(device, "info", lambda: {"total_memory": 24 * GB})
    assert device.card_memory() == 24 * GB
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    assert device.card_memory() is None


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        (b" lowpowermode         1\n sleep 1 (by x)\n", "low"),
        (b" lowpowermode 0\n", None),
        (b"", None),
    ],
)
def test_a_macs_low_power_mode_is_another_mode(monkeypatch, said, mode):
    monkeypatch.setattr(sys, "platform", "darwin")
    answer = SimpleNamespace(stdout=said)
    monkeypatch.setattr(subprocess, "run", lambda *asked, **how: answer)
    device.power_mode.cache_clear()
    assert device.power_mode() == mode
    device.power_mode.cache_clear()


def test_so_is_a_governor_of_linux(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(device, "_GOVERNOR", tmp_path / "governor")
    device.power_mode.cache_clear()
    assert device.power_mode() is None
    (tmp_path / "governor").write_text("powersave\n")
    device.power_mode.cache_clear()
    assert device.power_mode() == "powersave"
    device.power_mode.cache_clear()
