import os
import threading

import pytest

from llm_specdec import files
from llm_specdec.prefix_cache.folder import Cap, Folder, NoRoom

KEY, OTHER = "a" * 32, "b" * 32


@pytest.fixture
def root(tmp_path):
    return tmp_path / "specdec" / "cache"


def capped(root, cap, pairings=("p", "q")):
    return Folder(root, lambda taken, free: Cap(cap, "a test"), pairings)


def name(number):
    return f"{number}t-{number:04x}.safetensors"


def keep(folder, number, size=100, pairing="p", key=KEY, used=None, **more):
    """An entry of `size` bytes, last used at `used`."""
    path = folder.root / pairing / key / name(number)
    folder.keep(path, size, lambda file: file.write(b"x" * size), **more)
    if used is not None:
        os.utime(path, (used, used))


def numbers(folder):
    return sorted(int(file.path.name.partition("t")[0]) for file in folder.contents().entries)


def test_what_is_written_is_private(root):
    keep(capped(root, 1000), 1)
    (file,) = root.rglob("*.safetensors")
    assert file.stat().st_mode & 0o777 == 0o600
    assert {p.stat().st_mode & 0o777 for p in (root, root / "p", root / "p" / KEY)} == {0o700}


@pytest.mark.parametrize("level", [0, 1])
def test_a_link_below_the_root_is_refused_and_counted(root, tmp_path, level):
    folder, elsewhere = capped(root, 1000), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs").write_bytes(b"x" * 10_000)
    link = root / "p" / KEY if level else root / "p"
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(NotADirectoryError, match="is a link"):
        keep(folder, 1)
    assert [path.name for path in elsewhere.iterdir()] == ["theirs"]
    lock = (root.parent / "cache.lock").lstat().st_size
    assert lock == 0
    assert folder.contents().foreign == [link.lstat().st_size]


def test_the_root_may_be_a_link(root, tmp_path):
    (tmp_path / "disk").mkdir()
    root.parent.mkdir()
    root.symlink_to(tmp_path / "disk")
    folder = capped(root, 1000)
    keep(folder, 1)
    assert numbers(folder) == [1]


def test_all_of_it_is_private_whatever_the_umask(root):
    before = os.umask(0)
    try:
        keep(capped(root, 1000), 1)
    finally:
        os.umask(before)
    made = [root.parent, *root.parent.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}


def test_the_least_recently_used_go_until_the_new_one_fits(root):
    folder = capped(root, 300)
    for number in (1, 2, 3):
        keep(folder, number, used=number)
    os.utime(root / "p" / KEY / name(1), (9, 9))
    keep(folder, 4, size=150)
    assert numbers(folder) == [1, 4]
    assert folder.contents().nbytes <= 300


def test_an_entry_larger_than_the_cap_is_not_written_and_evicts_nothing(root):
    folder = capped(root, 300)
    keep(folder, 1)
    with pytest.raises(NoRoom, match="the prefix cache on disk may hold, at most 0 KB"):
        keep(folder, 2, size=301)
    assert numbers(folder) == [1]


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

    def cap(taken, free):
        asked.append((taken, free))
        return Cap(1000, "a test")

    folder = Folder(root, cap)
    keep(folder, 1, size=40)
    keep(folder, 2)
    assert [taken for taken, _ in asked] == [0, 40]
    assert asked[0][1] > 0


def test_entries_of_removed_pairings_go_first_then_those_of_former_keys(root):
    folder = capped(root, 500)
    keep(folder, 1, used=50, pairing="gone")
    keep(folder, 2, used=10, key=OTHER)
    keep(folder, 3, used=40)
    keep(folder, 4, used=20, pairing="q")
    left = []
    for room in (400, 300, 200, 100):
        capped(root, room).trim()
        left.append(numbers(folder))
    assert left == [[1, 2, 3, 4], [2, 3, 4], [3, 4], [3]]


def test_an_entry_goes_when_another_stands_instead_of_it(root):
    folder = capped(root, 1000)
    keep(folder, 1)
    keep(folder, 2, instead_of=[root / "p" / KEY / name(1)])
    assert numbers(folder) == [2]


def test_files_that_are_not_ours_are_counted_and_never_touched(root):
    folder = capped(root, 300)
    keep(folder, 1)
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
    found = folder.contents()
    assert sorted(found.foreign) == [30] * 6
    assert found.nbytes == 280
    with pytest.raises(NoRoom):
        keep(folder, 2, size=121)  # only 120 of 300 bytes can ever be ours
    keep(folder, 3, size=120)
    assert numbers(folder) == [3]
    folder.clear()
    assert all(path.read_bytes() == b"y" * 30 for path in foreign)


def test_links_are_not_followed(root, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"z" * 10_000)
    folder = capped(root, 300)
    keep(folder, 1)
    (root / "link").symlink_to(precious)
    (root / "p" / KEY / name(2)).symlink_to(precious / "file")
    assert folder.contents().nbytes < 300
    folder.clear()
    assert (precious / "file").exists()


def test_what_a_killed_process_left_is_removed_by_the_next_write(root):
    folder = capped(root, 300)
    keep(folder, 1)
    left = root / "p" / KEY / f".{name(2)}.new"
    left.write_bytes(b"half")
    assert folder.contents().nbytes == 104
    keep(folder, 2)
    assert numbers(folder) == [1, 2]
    assert not left.exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_nothing_and_keeps_the_rest(root, error):
    folder = capped(root, 1000)
    keep(folder, 1)

    def write(file):
        file.write(b"half")
        raise error

    path = root / "p" / OTHER / name(2)
    with pytest.raises(type(error)):
        folder.keep(path, 100, write, instead_of=[root / "p" / KEY / name(1)])
    assert [p.name for p in root.rglob("*") if p.is_file()] == [name(1)]


def test_clear_takes_one_pairing_or_all(root):
    folder = capped(root, 1000)
    keep(folder, 1)
    keep(folder, 2, pairing="q")
    assert [file.pairing for file in folder.clear("p")] == ["p"]
    assert numbers(folder) == [2]
    assert len(folder.clear()) == 1
    assert list(root.iterdir()) == []
    assert Folder(root / "nowhere", lambda taken, free: Cap(0, "a test")).clear() == []


def test_writers_wait_for_each_other(root):
    folder = capped(root, 1000)
    root.mkdir(parents=True)
    with files.locked(root):
        other = threading.Thread(target=keep, args=(folder, 1))
        other.start()
        other.join(0.2)
        assert numbers(folder) == []
    other.join()
    assert numbers(folder) == [1]
