"""Several processes on one cache, and some that do not live long."""

import time

from fixtures.cache_processes import KEY, check, entry, kill_writers, read_all, start_writer, tier


def test_a_reader_beside_two_writers_that_evict(tmp_path):
    """An entry is read whole or not at all, also while it is evicted or replaced."""
    root = tmp_path / "cache"
    writers = [start_writer(root, seed) for seed in (1, 2)]
    read, end = 0, time.monotonic() + 60
    while read < 60 and time.monotonic() < end:
        read += read_all(root)
    alive = [writer.is_alive() for writer in writers]
    for writer in writers:
        writer.kill()
        writer.join()
    assert (read >= 60, alive) == (True, [True, True])
    assert check(root)["entries"] > 0


def test_a_writer_killed_at_any_moment_leaves_a_whole_cache_within_its_cap(tmp_path):
    """`python -m benchmarks.cache_kills` does it 200 times."""
    root = tmp_path / "cache"
    found = kill_writers(root, 10, seed=7)
    assert found["runs"] == 10
    assert found["entries"] > 0
    tier(root).put(KEY, entry(1))
    assert check(root)["half_written"] == 0
