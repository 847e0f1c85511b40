"""The fast BLAS is in the process before mlx is, or it says why not."""

import ctypes.util
import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

from llm_specdec.engine.hardware import blas

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux needs another BLAS")

PROBE = """
import json, os, sys
{first}
from llm_specdec.engine import blas
import mlx.core as mx
ones = mx.ones((64, 64))
assert mx.all(ones @ ones == 64).item()
with open("/proc/self/maps") as maps:
    mapped = {{line.split()[-1] for line in maps if ".so" in line}}
found = blas.preload()
print(json.dumps(dict(vars(found), mapped=sorted(mapped), spins=os.environ.get("KMP_BLOCKTIME"))))
"""


def probe(choice="", first="", **more):
    run = subprocess.run(
        [sys.executable, "-c", PROBE.format(first=first)],
        env={**os.environ, "LLM_SPECDEC_BLAS": choice, "PYTHONPATH": ":".join(sys.path), **more},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def uses(found, name):
    return any(name in path.rsplit("/", 1)[-1] for path in found["mapped"])


@linux
def test_mlx_multiplies_with_mkl_where_it_is_installed():
    if not blas.installed("mkl"):
        pytest.skip("no mkl here")
    found = probe()
    assert (found["name"], found["reason"]) == ("mkl", "")
    assert uses(found, "libmkl_core"), "mkl loads its kernels at the first product"


@linux
def test_the_threads_of_mkl_spin_briefly_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("KMP_BLOCKTIME", raising=False)
    assert probe()["spins"] == "10"
    assert probe(KMP_BLOCKTIME="200")["spins"] == "200"


@linux
def test_off_leaves_mlx_its_own():
    found = probe("off")
    assert (found["name"], found["path"]) == (None, None)
    assert "LLM_SPECDEC_BLAS" in found["reason"]
    assert not uses(found, "libmkl")
    assert not uses(found, "libopenblas")


@linux
def test_mlx_imported_first_is_said_to_be_too_late():
    found = probe(first="import mlx.core")
    assert found["path"] is None
    assert "too late" in found["reason"]


@linux
def test_a_library_that_does_not_load_is_passed_over(tmp_path):
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"not ELF")
    found = probe(str(broken))
    assert found["path"] is None
    assert str(broken) in found["reason"]


@pytest.fixture
def fresh(monkeypatch):
    """preload() as if it had not run; nothing is loaded into this process."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    monkeypatch.delenv(blas.VARIABLE, raising=False)
    monkeypatch.setattr(blas, "load", lambda path: None if "good" in path else f"{path}: no")
    blas.preload.cache_clear()
    yield monkeypatch
    blas.preload.cache_clear()


def test_nothing_is_done_off_linux(fresh):
    fresh.setattr(sys, "platform", "darwin")
    assert blas.preload() is None


def test_nothing_is_done_with_the_cuda_backend(fresh):
    fresh.setattr(blas, "installed", lambda name: name == "mlx-cuda-13")
    assert blas.preload() is None


def test_the_first_that_loads_is_taken_and_the_others_are_named(fresh):
    fresh.setattr(blas, "candidates", lambda: iter(["bad", "good-openblas", "good-mkl"]))
    assert blas.preload() == blas.Blas("openblas", "good-openblas", "bad: no")


def test_without_any_the_advice_is_given(fresh):
    fresh.setattr(blas, "candidates", lambda: iter(["bad"]))
    found = blas.preload()
    assert found == blas.Blas(None, None, f"bad: no; {blas.ADVICE}")


def test_a_named_library_that_is_not_used_is_said(fresh):
    fresh.setenv(blas.VARIABLE, "bad")
    assert blas.unused() == (
        "LLM_SPECDEC_BLAS is not used: bad: no; correct or unset LLM_SPECDEC_BLAS"
    )


@pytest.mark.parametrize("choice", ["", "off", "good"])
def test_otherwise_there_is_nothing_to_say(fresh, choice):
    fresh.setattr(blas, "candidates", lambda: iter(["bad"]))
    fresh.setenv(blas.VARIABLE, choice)
    assert blas.unused() is None


def test_a_library_without_blas_is_refused():
    c_library = ctypes.util.find_library("c") or "libc.so.6"
    assert "no cblas_sgemm" in (blas.load(c_library) or "")


def test_packages_that_are_not_there_are_not_found(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    assert blas.packaged_mkl() == []
    assert not blas.installed("no-such-distribution-here")
