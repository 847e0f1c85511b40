"""The device, and what makes mlx's CPU backend fast.

device          what mlx computes on: names, memory
blas            a fast BLAS in the process before mlx is
skinny_matmul   products of a few rows, in the order that MKL is fast at
eager_dispatch  layers launched while the host still builds the rest of a pass
"""
