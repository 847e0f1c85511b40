"""The installation: versions, device, space, logging."""

import os
import shlex
from importlib import metadata

import llm

from llm_specdec.checks.finding import Finding, Findings
from llm_specdec.checks.registered import known
from llm_specdec.console.sizes import gigabytes
from llm_specdec.prefix_cache import limits

NEARLY = 0.9  # of the prefix cache's cap


def versions() -> Findings:
    """Installed versions against the ranges that this release was tested with."""
    from packaging.requirements import Requirement

    try:
        asked = map(Requirement, metadata.requires("llm-specdec") or [])
    except metadata.PackageNotFoundError:
        yield Finding("warning", "llm-specdec is not installed as a package, ranges are unknown")
        return
    wanted = {need.name: need.specifier for need in asked if need.marker is None}
    for name in ("llm", "mlx", "mlx-lm"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding("broken", f"{name} is missing", "nothing can run", f"llm install {name}")
            continue
        if wanted[name].contains(version, prereleases=True):
            yield Finding("ok", f"{name} {version}")
        else:
            yield Finding(
                "warning",
                f"{name} {version} is outside the tested range {wanted[name]}",
                "its internals may have moved: output or speed may be wrong",
                f"llm install {shlex.quote(f'{name}{wanted[name]}')}",
            )


def backend() -> Findings:
    """The device that mlx computes on; on a Linux CPU also the BLAS that multiplies.

    Raises ResourceError where mlx has no backend.
    """
    from llm_specdec.engine.hardware import blas, device

    yield Finding("ok", f"device: {device.name()}")
    found, chosen = blas.preload(), os.environ.get(blas.VARIABLE)
    if found and found.name:
        yield Finding("ok", f"BLAS: {found.name}")
    elif found:
        yield Finding(
            "warning",
            f"BLAS: mlx's own ({found.reason})",
            "verifying several tokens costs as much as decoding them: drafting cannot pay",
            f"unset {blas.VARIABLE}" if chosen else "llm install 'llm-specdec[cpu]'",
        )


def logging() -> Findings:
    """Whether llm keeps a log, where receipts go."""
    if (llm.user_dir() / "logs-off").exists():
        yield Finding(
            "warning",
            "logging is off",
            "runs leave no receipt: logs and compare have nothing to show",
            "llm logs on",
        )
    else:
        yield Finding("ok", "logging is on")


def disk() -> Findings:
    """Free disk, and the prefix cache that lives on it."""
    found = known()
    folder = limits.folder(found)
    taken, free = folder.contents().nbytes, folder.free()
    cap = limits.disk(found, taken, free)
    said = f"{gigabytes(free)} of disk is free; prefix cache: {gigabytes(taken)}"
    if cap.nbytes == 0 and not cap.own:
        yield Finding(
            "warning",
            f"{said}, {cap}",
            "every prompt is read from its beginning, and downloads may fail",
            "free some disk; llm specdec cache limit 0 turns the cache off",
        )
    elif taken > cap.nbytes:
        yield Finding(
            "warning",
            f"{said}, {cap}",
            "the next run evicts entries, or other files fill its folder",
            "llm specdec cache status",
        )
    else:
        full = ", nearly full" if taken > NEARLY * cap.nbytes else ""
        yield Finding("ok", f"{said}, {cap}{full}")
