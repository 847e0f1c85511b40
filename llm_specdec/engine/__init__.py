"""Token ids in, token ids out: the only part that imports mlx.

A fast BLAS must be in the process before mlx is, hence the call on import. On Linux the
mlx package alone computes nothing; that is said here, once, for every command.
"""

import sys

from llm_specdec.engine import blas
from llm_specdec.errors import ResourceError

blas.preload()

try:
    import mlx.core  # noqa: F401
except ImportError as error:
    if sys.platform != "linux":
        raise ResourceError(f"mlx cannot be loaded: {error}") from error
    raise ResourceError(
        "mlx has no backend on this machine: llm install 'llm-specdec[cpu]', "
        "or 'llm-specdec[cuda13]' for an NVIDIA GPU"
    ) from error
