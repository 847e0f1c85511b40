"""Token ids in, token ids out: the only part that imports mlx.

A fast BLAS must be in the process before mlx is, hence the call on import.
"""

from llm_specdec.engine import blas

blas.preload()
