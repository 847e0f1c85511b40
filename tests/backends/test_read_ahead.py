"""Weights are on their way from the disk before the engine is imported."""

import os
import sys
import threading

import pytest

from llm_specdec.backends import read_ahead

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="macOS is asked otherwise")


@pytest.fixture
def asked(monkeypatch):
    """Sizes of the files that the system is asked to read."""
    found = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda file, *more: found.append(os.fstat(file).st_size)
    )
    read_ahead.begin.cache_clear()
    return found


def test_each_file_of_weights_is_asked_for_once_a_process(asked, tmp_path):
    for name, size in (("a.safetensors", 5), ("b.safetensors", 7), ("config.json", 9)):
        (tmp_path / name).write_bytes(b" " * size)
    os.mkfifo(tmp_path / "c.safetensors")
    for _ in range(2):
        read_ahead.begin(str(tmp_path))
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(1)
    assert asked == [5, 7]


def test_a_folder_that_is_not_there_is_left_to_others(asked, tmp_path):
    read_ahead._read(tmp_path / "none")
    assert asked == []
