"""Sizes as people read them."""


def gigabytes(nbytes: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if nbytes >= size:
            return f"{nbytes / size:.{1 if unit == 'GB' else 0}f} {unit}"
    return f"{nbytes / 1e3:.0f} KB"
