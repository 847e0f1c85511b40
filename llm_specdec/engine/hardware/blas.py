"""A fast BLAS for MLX's CPU backend on Linux.

The `mlx-cpu` wheel brings the reference BLAS, on which a verify pass costs as much per token as
decoding does, so that drafting cannot pay. Symbols of a library that was loaded RTLD_GLOBAL come
first when MLX is imported later: loading an optimised BLAS before it is all that is needed.
"""

import ctypes
import functools
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "LLM_SPECDEC_BLAS"  # "off", or the path of a library
ADVICE = "install the Python package mkl (x86-64) or your system's OpenBLAS (libopenblas0-pthread)"
SPINS = "10"  # ms that MKL's threads wait for work, keeping the host off a core: 200 if not told
CUDA_BACKENDS = ("mlx-cuda-12", "mlx-cuda-13")


@dataclass(frozen=True)
class Blas:
    """What MLX's CPU backend multiplies with. `name` and `path` are None for its own BLAS."""

    name: str | None
    path: str | None
    reason: str = ""  # why it is MLX's own, or why better candidates were passed over


@functools.cache
def preload() -> Blas | None:
    """Load a fast BLAS once per process, before mlx is imported; say which.

    None where MLX brings a fast one itself: off Linux, and with its CUDA backend.
    """
    if sys.platform != "linux" or any(map(installed, CUDA_BACKENDS)):
        return None
    choice = os.environ.get(VARIABLE, "")
    if choice == "off":
        return Blas(None, None, f"turned off by {VARIABLE}")
    if "mlx.core" in sys.modules:
        return Blas(None, None, "mlx was imported first; too late to load another BLAS")
    os.environ.setdefault("KMP_BLOCKTIME", SPINS)
    failures: list[str] = []
    for path in [choice] if choice else candidates():
        problem = load(path)
        if problem is None:
            return Blas(name_of(path), path, "; ".join(failures))
        failures.append(problem)
    advice = f"correct or unset {VARIABLE}" if choice else ADVICE
    return Blas(None, None, "; ".join([*failures, advice]))


def unused() -> str | None:
    """Why the library that the user named is not used, and what to do; None where it is."""
    loaded = preload()
    named = os.environ.get(VARIABLE, "") not in ("", "off")
    if named and loaded and not loaded.path:
        return f"{VARIABLE} is not used: {loaded.reason}"
    return None


def candidates() -> Iterator[str]:
    """Libraries worth trying, fastest first; threaded builds before serial ones."""
    environment = Path(sys.prefix, "lib")
    paths = [*packaged_mkl(), *environment.glob("libmkl_rt.so.*")]
    paths += [*environment.glob("libopenblas.so.0")]
    paths += [*Path("/usr/lib").glob("*/openblas-pthread/libopenblas.so.0")]
    yield from dict.fromkeys(str(path.resolve()) for path in paths if path.is_file())
    # Names without a folder go through the system's loader: Fedora's threaded build, the usual.
    yield from ("libopenblasp.so.0", "libopenblas.so.0")


def packaged_mkl() -> list[Path]:
    """The runtime library of the `mkl` distribution, wherever it was installed."""
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if file.name.startswith("libmkl_rt.so")]


def load(path: str) -> str | None:
    """Load one library for all that follow. Returns the problem, None when there is none."""
    try:
        library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return None if hasattr(library, "cblas_sgemm") else f"{path}: has no cblas_sgemm"


def name_of(path: str) -> str:
    file = Path(path).name
    return next((name for name in ("mkl", "openblas") if name in file), file)


def installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
