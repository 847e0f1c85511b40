import os
import threading

import pytest

from llm_specdec import files
from llm_specdec.prefix_store import Cap, NoRoom, Store

KEY, OTHER = "a" * 32, "b" * 32


@pytest.fixture
def root(tmp_path):
    return tmp_path / "specdec" / "cache"


def capped(root, cap, pairings=("p", "q")):
    return Store(root, lambda held, free: Cap(cap, "a test"), pairings)


def name(number):
    return f"{number}t-{number:04x}.safetensors"


def keep(store, number, size=100, pairing="p", key=KEY, used=None, **more):
    """An entry of `size` bytes, last used at `used`."""
    path = store.root / pairing / key / name(number)
    store.keep(path, size, lambda file: file.write(b"x" * size), **more)
    if used is not None:
        os.utime(path, (used, used))


def numbers(store):
    return sorted(int(held.path.name.partition("t")[0]) for held in store.contents().entries)


def test_what_is_written_is_private(root):
    keep(capped(root, 1000), 1)
    (file,) = root.rglob("*.safetensors")
    assert file.stat().st_mode & 0o777 == 0o600
    assert {p.stat().st_mode & 0o777 for p in (root, root / "p", root / "p" / KEY)} == {0o700}


def test_the_least_recently_used_go_until_the_new_one_fits(root):
    store = capped(root, 300)
    for number in (1, 2, 3):
        keep(store, number, used=number)
    os.utime(root / "p" / KEY / name(1), (9, 9))
    keep(store, 4, size=150)
    assert numbers(store) == [1, 4]
    assert store.contents().nbytes <= 300


def test_an_entry_larger_than_the_cap_is_not_written_and_evicts_nothing(root):
    store = capped(root, 300)
    keep(store, 1)
    with pytest.raises(NoRoom, match="the prefix cache on disk may hold, at most 0 KB"):
        keep(store, 2, size=301)
    assert numbers(store) == [1]


def test_a_cap_that_fell_evicts_at_the_next_write_or_trim(root):
    keep(capped(root, 300), 1, used=1)
    keep(capped(root, 300), 2, used=2)
    with pytest.raises(NoRoom):
        keep(capped(root, 100), 3, size=200)
    assert numbers(capped(root, 0)) == [2]
    capped(root, 0).trim()
    assert numbers(capped(root, 0)) == []
    assert list(root.iterdir()) == []


def test_the_cap_is_asked_with_what_is_held_and_what_is_free(root):
    asked = []

    def cap(held, free):
        asked.append((held, free))
        return Cap(1000, "a test")

    store = Store(root, cap)
    keep(store, 1, size=40)
    keep(store, 2)
    assert [held for held, _ in asked] == [0, 40]
    assert asked[0][1] > 0


def test_entries_of_removed_pairings_go_first_then_those_of_former_keys(root):
    store = capped(root, 500)
    keep(store, 1, used=50, pairing="gone")
    keep(store, 2, used=10, key=OTHER)
    keep(store, 3, used=40)
    keep(store, 4, used=20, pairing="q")
    left = []
    for room in (400, 300, 200, 100):
        capped(root, room).trim()
        left.append(numbers(store))
    assert left == [[1, 2, 3, 4], [2, 3, 4], [3, 4], [3]]


def test_an_entry_goes_when_another_stands_instead_of_it(root):
    store = capped(root, 1000)
    keep(store, 1)
    keep(store, 2, instead_of=[root / "p" / KEY / name(1)])
    assert numbers(store) == [2]


def test_files_that_are_not_ours_are_counted_and_never_touched(root):
    store = capped(root, 300)
    keep(store, 1)
    foreign = [
        root / "notes.txt",
        root / name(7),
        root / "p" / "short" / name(7),
        root / "p" / KEY / "7t-zzzz.safetensors",
        root / "p" / KEY / f".{name(7)}.tmp",
        root / "p" / KEY / "deep" / name(7),
    ]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"y" * 30)
    found = store.contents()
    assert sorted(found.foreign) == [30] * 6
    assert found.nbytes == 280
    with pytest.raises(NoRoom):
        keep(store, 2, size=121)  # only 120 of 300 bytes can ever be ours
    keep(store, 3, size=120)
    assert numbers(store) == [3]
    store.clear()
    assert all(path.read_bytes() == b"y" * 30 for path in foreign)


def test_links_are_not_followed(root, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"z" * 10_000)
    store = capped(root, 300)
    keep(store, 1)
    (root / "link").symlink_to(precious)
    (root / "p" / KEY / name(2)).symlink_to(precious / "file")
    assert store.contents().nbytes < 300
    store.clear()
    assert (precious / "file").exists()


def test_what_a_killed_process_left_is_removed_by_the_next_write(root):
    store = capped(root, 300)
    keep(store, 1)
    left = root / "p" / KEY / f".{name(2)}.new"
    left.write_bytes(b"half")
    assert store.contents().nbytes == 104
    keep(store, 2)
    assert numbers(store) == [1, 2]
    assert not left.exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_nothing_and_keeps_the_rest(root, error):
    store = capped(root, 1000)
    keep(store, 1)

    def write(file):
        file.write(b"half")
        raise error

    path = root / "p" / OTHER / name(2)
    with pytest.raises(type(error)):
        store.keep(path, 100, write, instead_of=[root / "p" / KEY / name(1)])
    assert [p.name for p in root.rglob("*") if p.is_file()] == [name(1)]


def test_clear_takes_one_pairing_or_all(root):
    store = capped(root, 1000)
    keep(store, 1)
    keep(store, 2, pairing="q")
    assert [held.pairing for held in store.clear("p")] == ["p"]
    assert numbers(store) == [2]
    assert len(store.clear()) == 1
    assert list(root.iterdir()) == []
    assert Store(root / "nowhere", lambda held, free: Cap(0, "a test")).clear() == []


def test_writers_wait_for_each_other(root):
    store = capped(root, 1000)
    root.mkdir(parents=True)
    with files.locked(root):
        other = threading.Thread(target=keep, args=(store, 1))
        other.start()
        other.join(0.2)
        assert numbers(store) == []
    other.join()
    assert numbers(store) == [1]
