"""Strangers' files are read within limits; our own are private whatever the umask."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llm_specdec import files


@pytest.fixture
def umask():
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def modes(folder):
    return {path.name: path.lstat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.mark.parametrize("bits", [0o000, 0o277, 0o777])
def test_what_is_made_is_private_whatever_the_umask(tmp_path, umask, bits):
    umask(bits)
    path = tmp_path / "specdec" / "specdec.toml"
    with files.locked(path):
        files.replace(path, b"x")
    files.make_private(path.with_name("bench.db"))
    assert modes(tmp_path) == {"specdec": 0o700}
    assert modes(path.parent) == dict.fromkeys(
        ("specdec.toml", "specdec.toml.lock", "bench.db"), 0o600
    )


def test_no_link_is_written_through(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "specdec.toml"
    victim.write_text("theirs")
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)
    planted = tmp_path / f".specdec.toml.{'0' * 16}"
    planted.symlink_to(victim)
    with pytest.raises(OSError):
        files.replace(path, b"ours")
    (tmp_path / "specdec.toml.lock").symlink_to(victim)
    with pytest.raises(OSError), files.locked(path):
        pass
    assert victim.read_text() == "theirs"


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "costs.json"
    victim.write_text("theirs")
    path.symlink_to(victim)
    files.replace(path, b"ours")
    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("theirs", "ours", False)


def test_what_a_killed_process_left_is_swept_and_nothing_else(tmp_path):
    path = tmp_path / "specdec.toml"
    old = [".specdec.toml.4711", ".specdec.toml.0123456789abcdef"]
    kept = [".specdec.toml.swp", "specdec.toml.4711", ".other.toml.4711"]
    fresh = ".specdec.toml.ffffffffffffffff"
    for name in (*old, *kept, fresh):
        (tmp_path / name).write_text("")
        if name != fresh:
            os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".specdec.toml.1").mkdir()
    os.utime(tmp_path / ".specdec.toml.1", (0, 0))
    files.replace(path, b"new")
    left = {".specdec.toml.1", fresh, *kept}
    assert {other.name for other in tmp_path.iterdir()} == {path.name, *left}


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        files.replace(path, b"new")
    assert [(other.name, other.read_text()) for other in tmp_path.iterdir()] == [("a", "old")]


def test_the_folder_is_synced_after_the_rename(tmp_path, monkeypatch):
    steps = []
    rename, fsync = Path.replace, os.fsync

    def renamed(path, other):
        steps.append("rename")
        return rename(path, other)

    def synced(descriptor):
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("folder" if folder else "file")
        fsync(descriptor)

    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    files.replace(tmp_path / "a", b"x")
    assert steps == ["file", "rename", "folder"]


def test_a_lock_that_is_held_is_waited_for_and_then_given_up(tmp_path, monkeypatch):
    path = tmp_path / "a"
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.05)
    with files.locked(path), pytest.raises(TimeoutError, match="in use"), files.locked(path):
        pass
    with files.locked(path):
        pass


HOLD = """
import sys, time
from pathlib import Path
from llm_specdec import files
with files.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_lets_go_of_its_lock(tmp_path):
    path = tmp_path / "a"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert holder.stdout
    holder.stdout.readline()
    holder.kill()
    holder.wait()
    started = time.monotonic()
    with files.locked(path):
        assert time.monotonic() - started < files.LOCK_SECONDS


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "blob").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "blob")
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert files.read(tmp_path / "link", 5) == b"12345"
    for name, kind in {"pipe": "named pipe", "zero": "device", "": "folder|directory"}.items():
        for look in (files.read, files.size_of):
            with pytest.raises(OSError, match=kind):
                look(tmp_path / name, 5)
    for look in (files.read, files.size_of):
        with pytest.raises(OSError, match=r"at most 0\.0 MB are read"):
            look(tmp_path / "blob", 4)
