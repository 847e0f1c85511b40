import pytest

from llm_specdec.errors import RegistryError
from llm_specdec.pairings import registry
from llm_specdec.prefix_cache import limits
from llm_specdec.prefix_cache.folder import Cap
from llm_specdec.prefix_cache.limits import GIB, disk_cap, hot_cap
from llm_specdec.settings import SIZE


@pytest.mark.parametrize(
    ("limit", "held", "free", "nbytes", "why"),
    [
        (None, 0, 200 * GIB, 10 * GIB, "10 GiB, the default"),
        (None, 0, 30 * GIB, 7.5 * GIB, "a quarter of free disk"),
        (None, 0, 12 * GIB, 2 * GIB, "10 GiB of disk stay free"),
        (None, 0, 10 * GIB, 0, "10 GiB of disk stay free"),
        (None, 0, 1 * GIB, 0, "10 GiB of disk stay free"),
        # What it holds counts as free: writing 7 of 30 GiB does not change the cap.
        (None, 7 * GIB, 23 * GIB, 7.5 * GIB, "a quarter of free disk"),
        (40 * GIB, 0, 200 * GIB, 40 * GIB, "your limit"),
        # The founding note's case: 185 GB asked for, 153 GB free.
        (185 * 10**9, 0, 153 * 10**9, 153 * 10**9 - 10 * GIB, "10 GiB of disk stay free"),
        (0, 0, 200 * GIB, 0, "your limit"),
    ],
)
def test_the_cap_on_disk(limit, held, free, nbytes, why):
    assert disk_cap(limit, held, free) == Cap(nbytes, why, own=why == "your limit")


@pytest.mark.parametrize(
    ("limit", "memory", "nbytes", "why"),
    [
        (None, 16 * GIB, 2 * GIB, "an eighth of memory"),
        (None, 128 * GIB, 4 * GIB, "4 GiB, the default"),
        (16 * GIB, 128 * GIB, 16 * GIB, "your limit"),
        (16 * GIB, 16 * GIB, 8 * GIB, "half of memory"),
        (0, 16 * GIB, 0, "your limit"),
    ],
)
def test_the_cap_in_memory(limit, memory, nbytes, why):
    assert hot_cap(limit, memory) == Cap(nbytes, why, own=why == "your limit")


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("40GB", 40 * 10**9), ("16GiB", 2**34), ("1.5 tb", 1.5e12), ("0", 0), ("2mib", 2**21)],
)
def test_sizes_are_read(text, nbytes):
    assert SIZE.parse(text) == nbytes == SIZE.check(text)


@pytest.mark.parametrize("text", ["40", "-4GB", "GB", "4 0GB", "4bit", "1e3GB", "nanGB", "٤GB", ""])
def test_other_texts_are_no_sizes(text):
    with pytest.raises(ValueError):
        SIZE.parse(text)


def test_the_registry_sets_the_limits(tmp_path):
    path = tmp_path / "specdec.toml"
    path.write_text('[cache]\nlimit = "1GB"\n[pairings.a]\ntarget = "x"\n[pairings.b]\nx = 1\n')
    known = registry.load(path)
    folder = limits.folder(known)
    assert folder.root == tmp_path / "cache"
    assert folder.cap(0, 200 * GIB).nbytes == 10**9
    assert folder.pairings == {"a", "b"}, "the entries of one that is broken may serve again"


def test_a_limit_of_0_needs_no_unit(tmp_path):
    path = tmp_path / "specdec.toml"
    path.write_text('[cache]\nlimit = 0\nhot = "0"\n')
    assert registry.load(path).cache == {"limit": 0, "hot": 0}


@pytest.mark.parametrize(
    "line", ["limit = 40", "limit = false", 'limit = "much"', "limit = true", 'cold = "1GB"']
)
def test_a_wrong_limit_names_its_line(tmp_path, line):
    path = tmp_path / "specdec.toml"
    path.write_text(f"[cache]\n{line}\n")
    with pytest.raises(RegistryError, match=r"specdec\.toml:2: cache"):
        registry.load(path)
