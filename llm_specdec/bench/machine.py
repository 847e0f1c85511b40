"""The machine a bench ran on, the state it was in, and the versions that ran."""

import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")

BUSY = 0.25  # share of the cores that others may use before figures bend
WATCHED = 1.0  # seconds, the least that a share of the cores is taken from
LARGE = 2**30  # resident bytes from which another process is worth naming
PACKAGES = ("llm-specdec", "llm", "mlx", "mlx-lm")


def machine() -> dict[str, Any]:
    """What does not change between benches: chip, cores, memory. No host or user name."""
    return {
        "chip": _chip() or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def identity(found: Mapping[str, Any]) -> str:
    """A machine in one text; a newer system makes no other machine."""
    return f"{found['chip']}, {found['cores']} cores, {found['memory_bytes'] / 2**30:.0f} GiB"


def versions() -> dict[str, str | None]:
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def state() -> dict[str, Any]:
    """What may bend a figure: load, memory pressure, power, other large processes."""
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return {
        "load_1min": round(psutil.getloadavg()[0], 2),
        "memory_available_bytes": memory.available,
        "swap_used_bytes": swap.used,
        "memory_pressure": _memory_pressure(),
        "power": _power(),
        "large_processes": _large_processes(),
    }


class Watch:
    """How much of the cores other processes have used since it was made."""

    def __init__(self) -> None:
        self._start, self._before = time.monotonic(), _cpu_seconds()

    def others(self) -> float:
        """From 0, idle, to 1, all cores; 0 too in the first second, which tells too little."""
        if time.monotonic() - self._start < WATCHED:
            return 0.0
        now = _cpu_seconds()
        busy, own, total = (after - before for before, after in zip(self._before, now, strict=True))
        return min(1.0, max(0.0, busy - own) / total) if total > 0 else 0.0


def others_now() -> float:
    """The share of the cores that other processes use now. Takes a second."""
    watch = Watch()
    time.sleep(WATCHED)
    return watch.others()


def _cpu_seconds() -> tuple[float, float, float]:
    """CPU time so far of all processes, of this one, and of all cores, idle time included."""
    everyone, own = psutil.cpu_times(), psutil.Process().cpu_times()
    idle = everyone.idle + getattr(everyone, "iowait", 0.0)
    guests = getattr(everyone, "guest", 0.0) + getattr(everyone, "guest_nice", 0.0)
    total = sum(everyone) - guests  # which user and nice hold already
    return total - idle, own.user + own.system, total


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _chip() -> str | None:
    if sys.platform == "darwin":
        return _quietly(lambda: _output("sysctl", "-n", "machdep.cpu.brand_string"))
    lines = _quietly(lambda: Path("/proc/cpuinfo").read_text().splitlines()) or []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)


def _memory_pressure() -> str | None:
    """macOS: normal, warning or critical; Linux: share of the last minute spent waiting."""
    if sys.platform == "darwin":
        level = _quietly(lambda: _output("sysctl", "-n", "kern.memorystatus_vm_pressure_level"))
        return {"1": "normal", "2": "warning", "4": "critical"}.get(level or "", level)
    text = _quietly(lambda: Path("/proc/pressure/memory").read_text()) or ""
    shares = (word.removeprefix("avg60=") for word in text.split() if word.startswith("avg60="))
    share = next(shares, None)
    return share and f"{share}%"


def _power() -> str | None:
    """mains, or battery with its charge; None where there is no battery to ask."""
    battery = _quietly(lambda: psutil.sensors_battery())
    if battery is None:
        return None
    return "mains" if battery.power_plugged else f"battery {battery.percent:.0f}%"


def _large_processes() -> list[dict[str, Any]]:
    """The three largest other processes of LARGE and more, largest first."""
    found = []
    for process in psutil.process_iter(["pid", "name", "memory_info"]):
        memory = process.info["memory_info"]
        if memory and memory.rss >= LARGE and process.info["pid"] != psutil.Process().pid:
            found.append({"name": process.info["name"], "resident_bytes": memory.rss})
    return sorted(found, key=lambda row: -row["resident_bytes"])[:3]


def _output(*command: str) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    return run.stdout.strip()


def _quietly(ask: Callable[[], T]) -> T | None:
    """The answer, or None where this system has none."""
    with suppress(OSError, subprocess.SubprocessError, AttributeError):
        return ask()
    return None
