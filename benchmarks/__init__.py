"""Measurements that nobody imports."""

import llm_specdec.engine  # noqa: F401  loads a fast BLAS before any benchmark imports mlx
