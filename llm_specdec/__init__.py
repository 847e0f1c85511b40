"""Speculative decoding for local MLX models, behind ordinary llm model ids."""

__version__ = "0.1.0"
