"""Disks that do not take what is written to them. Linux and root only; else a test is skipped."""

import contextlib
import os
import subprocess
import sys

import pytest


@contextlib.contextmanager
def small(folder, size="256k"):
    """A disk of that size at `folder`."""
    with _mounted(folder, ["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]):
        yield folder


@contextlib.contextmanager
def read_only(folder):
    """`folder` with all that is in it and may not be changed."""
    with _mounted(folder, ["--bind", str(folder)]):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield folder


@contextlib.contextmanager
def _mounted(folder, options):
    folder.mkdir(exist_ok=True)
    mount = ["mount", *options, str(folder)]
    if sys.platform != "linux" or os.geteuid() or subprocess.call(mount, stderr=subprocess.DEVNULL):
        pytest.skip("no right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)
