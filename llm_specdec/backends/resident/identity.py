"""What a worker must be of, to answer as this process would."""

import functools
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from llm_specdec import __version__
from llm_specdec.backends.planning import Plan
from llm_specdec.prefix_cache.keys import stamp

# Beginnings of the names of variables that choose how numbers are computed.
_VARIABLES = ("LLM_SPECDEC_", "MLX_", "METAL_", "CUDA_", "OPENBLAS_", "OMP_", "MKL_")
_PACKAGES = ("mlx", "mlx-lm", "transformers", "llguidance")


@functools.cache
def versions() -> dict[str, str]:
    """Of all that has a say in an answer, as installed when this process first asked."""
    return {"llm-specdec": __version__, **{name: _version(name) for name in _PACKAGES}}


@functools.cache
def environment() -> dict[str, str]:
    """Variables that have a say in an answer, as they were when this process first asked."""
    return {
        name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)
    }


def of_plan(plan: Plan) -> dict[str, str]:
    """The folders that the plan loads, each with a digest of its files' names, sizes and dates."""
    folders = [plan.target, *([plan.drafter] if plan.drafter else [])]
    return {folder: stamp(Path(folder)) for folder in folders}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
