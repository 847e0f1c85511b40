import json
import os

import psutil
import pytest

from llm_specdec.cli import cache as commands
from llm_specdec.pairings import registry
from llm_specdec.prefix_cache.folder import Folder
from llm_specdec.prefix_cache.limits import GIB
from tests.support.command_line import run as llm_command
from tests.support.command_line import specdec, write_registry
from tests.support.receipts import log

PAIRINGS = '[pairings.qwen]\ntarget = "t"\naliases = ["fast"]\n[pairings.idle]\ntarget = "t"\n'


@pytest.fixture
def cache(llm_user, monkeypatch):
    """A cache of three entries beside a registry of two pairings, on a disk with 100 GiB free."""
    folder = llm_user / "specdec" / "cache"
    for pairing, number in (("qwen", 1), ("qwen", 2), ("old", 3)):
        path = folder / pairing / ("a" * 32) / f"{number}t-0000.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1_000_000)
        os.utime(path, (0, 0))
    write_registry(PAIRINGS)
    monkeypatch.setattr(Folder, "free", lambda self: 100 * GIB)
    return folder


def run(*arguments):
    return specdec("cache", *arguments)


def status():
    return json.loads(run("status", "--json").stdout)


def entries(folder):
    return len(list(folder.rglob("*.safetensors")))


def test_status_says_what_is_held_and_may_be(cache):
    (cache / "notes.txt").write_bytes(b"y" * 500_000)
    done = run("status")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "disk    3 entries, 4 MB; at most 10.7 GB (10 GiB, the default)"
    assert lines[1] == f"        {cache}, 107.4 GB free"
    assert lines[2] == "        1 other file, 500 KB: counted, never touched"
    assert lines[-3].split()[:4] == ["qwen", "2", "2", "MB"]
    assert lines[-2].split() == ["idle", "0", "0", "KB", "–", "0", "0", "–"]
    assert lines[-1].split()[:5] == ["old", "(removed)", "1", "1", "MB"]


def test_what_warm_starts_saved_comes_from_the_log(cache, llm_user):
    path = llm_user / "logs.db"
    # Cold: 3,000 tokens in 1,500 ms. Warm: 1,900 of 2,000 tokens in 50 ms, 980 in 10 ms.
    log(path, prompt_tokens=1000, phases_ms={"prefill": 700.0})
    log(path, prompt_tokens=2000, phases_ms={"prefill": 800.0})
    log(path, prompt_tokens=2000, cached_tokens=1900, phases_ms={"restore": 50, "prefill": 90})
    log(path, prompt_tokens=1000, cached_tokens=980, phases_ms={"restore": 10, "prefill": 9})
    row = status()["pairings"][0]
    assert (row["name"], row["runs"], row["warm"]) == ("qwen", 4, 2)
    assert row["cached_tokens"] == 2880
    assert row["saved_ms"] == pytest.approx(2880 * 0.5 - 60)
    assert run("status").stdout.splitlines()[-3].endswith("4     2     1.4 s")


def test_without_a_cold_run_nothing_is_claimed(cache, llm_user):
    log(llm_user / "logs.db", cached_tokens=1900)
    assert status()["pairings"][0]["saved_ms"] is None
    assert run("status").stdout.splitlines()[-3].endswith("1     1     –")


def test_status_of_nothing(llm_user):
    found = status()
    assert (found["disk"]["entries"], found["disk"]["bytes"], found["pairings"]) == (0, 0, [])
    assert not (llm_user / "specdec").exists()


def test_clear_takes_all_or_one_by_name_or_alias(cache):
    done = run("clear", "fast")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "removed 2 entries, 2 MB\n"
    assert json.loads(run("clear", "old", "--json").stdout) == {
        "removed_entries": 1,
        "removed_bytes": 1_000_000,
    }
    assert entries(cache) == 0
    assert run("clear").exit_code == 0


@pytest.mark.parametrize("name", ["qwem", ""])  # "": an unset variable of a shell script
def test_clear_of_an_unknown_name_is_a_usage_error(cache, name):
    done = run("clear", name)
    assert done.exit_code == 2
    assert f"no pairing '{name}'" in done.stderr
    assert entries(cache) == 3


def test_limits_are_kept_in_the_registry_and_evict_at_once(cache):
    done = run("limit", "2.5MB", "--hot", "0.5GiB")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == "disk: at most 2 MB (your limit)"
    assert registry.load().cache == {"limit": 2_500_000, "hot": 2**29}
    assert entries(cache) == 2
    assert not (cache / "old").exists()
    assert (cache.parent / "specdec.toml").read_text().startswith(PAIRINGS)


def test_limits_go_back_to_the_default(cache):
    run("limit", "2GB", "--hot", "1GB")
    found = json.loads(run("limit", "auto", "--json").stdout)
    assert found["disk"]["cap_why"] == "10 GiB, the default"
    assert found["memory"]["limit_bytes"] == 10**9
    run("limit", "--hot", "auto")
    assert registry.load().cache == {}


def test_a_table_of_no_limits_goes(cache):
    path = cache.parent / "specdec.toml"
    run("limit", "auto")
    assert path.read_text() == PAIRINGS
    run("limit", "2GB", "--hot", "1GB")
    run("limit", "auto", "--hot", "auto")
    assert path.read_text() == PAIRINGS + "\n"


@pytest.mark.parametrize("table", ["[cache] # small disk\n", "[cache]\n# small disk\n"])
def test_a_table_with_a_comment_stays(cache, table):
    path = cache.parent / "specdec.toml"
    path.write_text(f'{table}limit = "2GB"\n{PAIRINGS}')
    run("limit", "auto")
    assert path.read_text() == table + PAIRINGS


def test_0_turns_it_off(cache):
    run("limit", "0")
    assert entries(cache) == 0
    assert run("status").stdout.startswith("disk    0 entries, 0 KB; off (your limit)")


def test_a_hot_limit_above_half_of_memory_is_kept_and_holds_as_far_as_there_is(cache, monkeypatch):
    memory = psutil.virtual_memory()._replace(total=16 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    done = run("limit", "--hot", "16GB")
    assert done.exit_code == 0
    assert "memory: at most 8.6 GB (half of memory)" in done.stderr
    assert registry.load().cache == {"hot": 16 * 10**9}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["97GB"], "97.0 GB is more than the disk can hold: at most 96.6 GB with 10 GiB left"),
        (["40"], "'40' is no limit: give a size such as 40GB or 16GiB, or 0, or auto"),
        (["--hot", "lots"], "'lots' is no limit"),
        (["--hot", "18GB"], "18.0 GB is more than the memory of this machine, 17.2 GB"),
        ([], "give a size"),
    ],
)
def test_limits_that_cannot_be_are_refused(cache, monkeypatch, arguments, said):
    memory = psutil.virtual_memory()._replace(total=16 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    done = run("limit", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert registry.load().cache == {}


def test_a_limit_says_what_it_removed(cache):
    assert run("limit", "0").stderr.splitlines()[-1] == "removed 3 entries, 3 MB"
    assert json.loads(run("limit", "0", "--json").stdout)["removed_entries"] == 0


@pytest.mark.parametrize(
    ("size", "question"),
    [("0", "3 entries, 3 MB: remove all of them?"), ("2MB", "3 entries, 3 MB: remove 1 MB?")],
)
def test_a_person_is_asked_before_a_limit_removes_entries(cache, monkeypatch, size, question):
    monkeypatch.setattr(commands, "on_terminal", lambda: True)
    before = registry.default_path().read_text()
    refused = llm_command("specdec", "cache", "limit", size, stdin="n\n")
    assert refused.exit_code == 1 and question in refused.stderr
    assert entries(cache) == 3 and registry.default_path().read_text() == before
    assert llm_command("specdec", "cache", "limit", size, stdin="y\n").exit_code == 0
    assert entries(cache) < 3


@pytest.mark.parametrize("arguments", [("0", "--yes"), ("10GB",), ("--hot", "0")])
def test_nobody_is_asked_where_nothing_goes_or_yes_is_said(cache, monkeypatch, arguments):
    monkeypatch.setattr(commands, "on_terminal", lambda: True)
    assert "?" not in run("limit", *arguments).stderr


def test_the_other_limit_stays_and_it_is_said_how_to_reset_it(cache):
    run("limit", "20GB", "--hot", "1GB")
    disk, memory = run("limit", "auto").stderr.splitlines()
    assert "as before" not in disk
    assert memory.endswith(", as before; llm specdec cache limit --hot auto resets it")
    assert registry.load().cache == {"hot": 10**9}
    run("limit", "20GB")
    disk, memory = run("limit", "--hot", "auto").stderr.splitlines()
    assert disk.endswith(", as before; llm specdec cache limit auto resets it")
    assert "as before" not in memory
