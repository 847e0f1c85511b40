"""DFlash and DFlash 2: a small block drafter that reads hidden states of the target.

One pass over `[pending token, mask, mask, …]` proposes a whole block. Each layer attends to the
target's hidden states of all committed tokens, projected to keys and values, and to the block
itself. Layout and fields: z-lab's checkpoints and the PyPI package `dflash` 0.1.0; `speculators`
packagings (own, smaller output matrix) load too.

    config.py   config.json → `Config`, no tensors
    weights.py  a folder → `Model`, renamed, fused, cast and quantised
    model.py    the mathematics
    drafter.py  the drafter the loop drives
"""
