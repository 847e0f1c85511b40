"""The device that mlx computes on, as far as memory and reports go."""

from typing import Any

import mlx.core as mx


def info() -> dict[str, Any]:
    return dict(mx.device_info())


def name() -> str:
    """Backend and device, such as `gpu Apple M4 Max`."""
    return f"{mx.default_device().type.name} {info().get('device_name', 'unknown')}"


def memory_limit() -> int | None:
    """Bytes a model may take: Apple's recommended working set, a GPU's memory, None on CPU."""
    found = info()
    for key in ("max_recommended_working_set_size", "free_memory", "total_memory"):
        if mx.default_device().type == mx.DeviceType.gpu and isinstance(found.get(key), int):
            return int(found[key])
    return None


def wire() -> None:
    """On Apple silicon, let weights and caches stay resident up to the recommended working set,
    target and drafter together: what is not wired may be paged out between two passes.

    Source: mlx_lm.generate.wired_limit, which sets the same limit around each generation.
    """
    limit = info().get("max_recommended_working_set_size")
    if mx.metal.is_available() and limit:
        mx.set_wired_limit(int(limit))


def peak_memory() -> int:
    """Bytes, since `mx.reset_peak_memory`: since the last run was prepared."""
    return int(mx.get_peak_memory())


def memory_in_use() -> int:
    """Bytes that weights and caches of this process hold now."""
    return int(mx.get_active_memory())
