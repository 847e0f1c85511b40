"""The device that mlx computes on, as far as memory and reports go."""

import contextlib
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx


def info() -> dict[str, Any]:
    return dict(mx.device_info())


def name() -> str:
    """Backend and device, such as `gpu Apple M4 Max`."""
    return f"{mx.default_device().type.name} {info().get('device_name', 'unknown')}"


@functools.cache
def power_mode() -> str | None:
    """How the system trades speed for power, such as `powersave`; None where it does not tell,
    and on a Mac that is not in low power mode."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            asked = subprocess.run(["/usr/bin/pmset", "-g"], capture_output=True, timeout=2)
            told = dict(line.split()[:2] for line in asked.stdout.splitlines() if line.split()[1:])
            return "low" if told.get(b"lowpowermode") == b"1" else None
        return None
    with contextlib.suppress(OSError):
        return _GOVERNOR.read_text("ascii").strip() or None
    return None


_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def memory_limit(resident: int = 0, others: int = 0) -> int | None:
    """Bytes that models may take in all; None on CPU.

    Apple's recommended working set already counts what is loaded: `others`, the bytes of models
    that this process keeps beside those that a run uses, come off it. What a CUDA device reports
    as free counts nothing that is loaded: `resident`, the bytes that this process holds and will
    go on using, and the freed buffers that mlx keeps for reuse are added to it.
    """
    if mx.default_device().type != mx.DeviceType.gpu:
        return None
    device = info()
    if limit := device.get("max_recommended_working_set_size"):
        return max(int(limit) - others, 0)
    free, total = device.get("free_memory"), device.get("total_memory")
    if free is None:
        return None if total is None else int(total)
    usable = int(free) + resident + int(mx.get_cache_memory())
    return usable if total is None else min(usable, int(total))


def has_working_set() -> bool:
    """Whether memory is limited by Apple's recommended working set, which says nothing of what
    other processes hold."""
    gpu = mx.default_device().type == mx.DeviceType.gpu
    return gpu and bool(info().get("max_recommended_working_set_size"))


def card_memory() -> int | None:
    """Bytes of memory that a CUDA device has; None on the CPU and on Apple silicon."""
    if mx.default_device().type != mx.DeviceType.gpu or mx.metal.is_available():
        return None
    total = info().get("total_memory")
    return None if total is None else int(total)


@contextlib.contextmanager
def wired() -> Iterator[None]:
    """On Apple silicon, let weights and caches stay resident up to the recommended working set,
    target and drafter together: what is not wired may be paged out between two passes. Once
    nothing runs the system has the memory to itself again. Runs may take turns.

    Source: mlx_lm.generate.wired_limit, which sets the same limit around each generation.
    """
    global _wiring
    limit = info().get("max_recommended_working_set_size")
    if not (mx.metal.is_available() and limit):
        yield
        return
    if not _wiring:
        mx.set_wired_limit(int(limit))
    _wiring += 1
    try:
        yield
    finally:
        _wiring -= 1
        if not _wiring:
            mx.synchronize()
            mx.set_wired_limit(0)


_wiring = 0  # how many are under way


def peak_memory() -> int:
    """Bytes, since `mx.reset_peak_memory`: since the last run was prepared."""
    return int(mx.get_peak_memory())


def memory_held() -> int:
    """Bytes that this process has of the device, buffers that mlx keeps for reuse among them."""
    return int(mx.get_active_memory() + mx.get_cache_memory())


def memory_in_use() -> int:
    """Bytes that weights and caches of this process hold now."""
    return int(mx.get_active_memory())
