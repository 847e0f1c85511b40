import json
import os
import random
import shutil
import struct

import mlx.core as mx
import pytest

from llm_specdec.engine.states import Entry
from llm_specdec.prefix_cache import disk
from llm_specdec.prefix_cache.disk import DiskTier
from llm_specdec.prefix_cache.folder import Cap, Folder
from llm_specdec.prefix_cache.keys import Key
from llm_specdec.prefix_cache.matching import usable
from llm_specdec.prefix_cache.names import lengths, name_of
from tests.support.disks import read_only, small

KEY = Key({"target": "abc", "format": "1"})
OTHER = Key({"target": "abd", "format": "1"})
TYPES = (mx.float32, mx.bfloat16, mx.float16, mx.uint32)


def entry(tokens, exact=False, rows=4):
    """States that only these tokens have, of every type and with an empty array."""
    seed = mx.random.key(hash(tuple(tokens)) & 0xFFFF)
    target = [(mx.random.uniform(shape=(1, 2, rows, 3), key=seed) * 99).astype(t) for t in TYPES]
    drafter = [mx.zeros((0,)), mx.arange(len(tokens))]
    mx.eval(target, drafter)
    return Entry(tuple(tokens), target, drafter, exact)


def same(a, b):
    left, right = [*a.target, *a.drafter], [*b.target, *b.drafter]
    return (
        (a.tokens, a.exact, len(a.target)) == (b.tokens, b.exact, len(b.target))
        and [x.dtype for x in left] == [y.dtype for y in right]
        and all(mx.array_equal(x, y) for x, y in zip(left, right, strict=True))
    )


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """A busy disk takes its time, and no test here pulls the plug."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def warnings():
    return []


def tier_in(folder, warnings, cap=10**9, own=False):
    entries = Folder(folder / "cache", lambda taken, free: Cap(cap, "a test", own), ["p"])
    return DiskTier(entries, "p", warnings.append)


@pytest.fixture
def tier(tmp_path, warnings):
    return tier_in(tmp_path, warnings)


def files_of(tier):
    return sorted(tier.folder.root.rglob("*.safetensors"))


def test_an_entry_comes_back_as_it_was(tier):
    for exact in (False, True):
        kept = entry((1, 2, 3, exact + 7), exact)
        tier.put(KEY, kept)
        found = tier.longest(KEY, [*kept.tokens, 5])
        assert same(found.entry, kept)
        assert found.length == 3
    assert tier.longest(OTHER, [1, 2, 3, 7, 5]) is None
    assert tier.longest(KEY, [1, 2, 3, 7, 5], beyond=3) is None
    assert tier.longest(KEY, [1, 2, 3, 7, 5], beyond=2).length == 3


def test_the_longest_use_is_found_as_by_a_search_through_all(tier):
    draw = random.Random(2)
    for _ in range(40):
        shutil.rmtree(tier.folder.root, ignore_errors=True)
        kept = {}
        for _ in range(draw.randrange(8)):
            tokens = tuple(draw.randrange(2) for _ in range(draw.randrange(2, 9)))
            kept[tokens] = entry(tokens, exact=draw.random() < 0.4, rows=1)
            tier.put(KEY, kept[tokens])
        prompt = [draw.randrange(2) for _ in range(draw.randrange(1, 9))]
        best = max((usable(e.tokens, e.exact, prompt) for e in kept.values()), default=0)
        found = tier.longest(KEY, prompt)
        assert (found.length if found else 0) == best
        assert not found or usable(found.entry.tokens, found.entry.exact, prompt) == best


def test_of_long_entries_less_than_a_step_is_lost(tier):
    draw = random.Random(3)
    stem = [draw.randrange(50) for _ in range(400)]
    kept = [(*stem[: draw.randrange(200, 400)], *draw.sample(range(50), 40)) for _ in range(12)]
    for tokens in kept:
        tier.put(KEY, entry(tokens, rows=1))
    for _ in range(20):
        prompt = [*stem[: draw.randrange(200, 400)], *draw.sample(range(50), 40)]
        best = max(usable(tokens, False, prompt) for tokens in kept)
        found = tier.longest(KEY, prompt)
        assert best - lengths(440)[0] <= found.length <= best


def test_a_lookup_opens_as_few_files_among_many_as_among_few(tier, monkeypatch):
    opened = []
    real = disk._open

    def counted(path, *more):
        opened.append(path)
        return real(path, *more)

    monkeypatch.setattr(disk, "_open", counted)
    prompt = list(range(100))
    tier.put(KEY, entry((*prompt[:95], 7), rows=1))
    counts = []
    for many in (range(10), range(10, 200)):
        for i in many:
            tier.put(KEY, entry((*prompt[: 20 + i % 40], 1000 + i, *range(i % 50)), rows=1))
        opened.clear()
        assert tier.longest(KEY, prompt).length == 94
        counts.append(len(opened))
    assert counts[0] == counts[1] <= disk.TRIES


def test_an_entry_that_goes_on_replaces_the_shorter_one(tier):
    tier.put(KEY, entry((1, 2, 3)))
    tier.put(KEY, entry((1, 2, 9)))
    tier.put(KEY, entry((1, 2, 3), exact=True))
    tier.put(OTHER, entry((1, 2, 3)))
    tier.put(KEY, entry((1, 2, 3, 4)))
    kept = {(path.parent.name, path.name.partition("-")[0]) for path in files_of(tier)}
    ours, other = KEY.digest[:32], OTHER.digest[:32]
    assert kept == {(ours, "4t"), (ours, "3t"), (ours, "3x"), (other, "3t")}
    assert len(files_of(tier)) == 4
    tier.put(KEY, entry((1, 2, 3, 4, 5), exact=True))
    assert len(files_of(tier)) == 5, "an exact entry serves no shorter prompt: it replaces nothing"


def test_an_entry_that_is_evicted_while_it_is_read_is_read_to_its_end(tier, monkeypatch):
    kept = entry((1, 2, 3))
    tier.put(KEY, kept)
    real = disk._File.entry

    def evicted(file):
        tier.folder.clear()
        return real(file)

    monkeypatch.setattr(disk._File, "entry", evicted)
    assert same(tier.longest(KEY, [1, 2, 3, 4]).entry, kept)
    assert tier.longest(KEY, [1, 2, 3, 4]) is None


def test_a_hit_and_a_second_put_count_as_use(tier):
    tier.put(KEY, entry((1, 2, 3)))
    (path,) = files_of(tier)
    for use in (lambda: tier.longest(KEY, [1, 2, 3, 4]), lambda: tier.put(KEY, entry((1, 2, 3)))):
        os.utime(path, (1, 1))
        use()
        assert path.stat().st_mtime > 1
    os.utime(path, (1, 1))
    tier.longest(KEY, [9, 9])
    assert path.stat().st_mtime == 1


def test_size_on_disk_is_that_of_the_states(tier):
    kept = Entry(tuple(range(2000)), [mx.zeros((1, 3, 1999, 64))] * 8, [], False)
    mx.eval(kept.target)
    tier.put(KEY, kept)
    (path,) = files_of(tier)
    assert path.stat().st_size <= 1.05 * kept.nbytes


# ---- damage ----


def damaged(path, draw):
    """The file's bytes, damaged in one of several ways."""
    data = bytearray(path.read_bytes())
    way = draw.randrange(4)
    if way == 0:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif way == 1:
        del data[draw.randrange(len(data)) :]
    elif way == 2:
        data += bytes(draw.randrange(1, 99))
    else:
        start = draw.randrange(len(data))
        data[start : start + 50] = draw.randbytes(50)
    return bytes(data)


def test_a_damaged_file_is_a_miss_and_removed(tier):
    draw = random.Random(4)
    kept = entry((5, 6, 7, 8))
    tier.put(KEY, kept)
    (path,) = files_of(tier)
    whole = path.read_bytes()
    for _ in range(400):
        path.write_bytes(damaged(path, draw))
        assert tier.longest(KEY, [5, 6, 7, 8, 9]) is None
        assert not path.exists()
        path.write_bytes(whole)
    assert same(tier.longest(KEY, [5, 6, 7, 8, 9]).entry, kept)


def test_every_byte_of_the_header_counts(tier):
    tier.put(KEY, entry((5, 6, 7, 8)))
    (path,) = files_of(tier)
    whole = path.read_bytes()
    for at in range(8 + struct.unpack("<Q", whole[:8])[0]):
        path.write_bytes(bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]))
        assert tier.longest(KEY, [5, 6, 7, 8, 9]) is None


def rewritten(path, change):
    """The file with its metadata changed, its size fields right."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    change(header["__metadata__"])
    said = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(said)) + said + data[8 + size :])


@pytest.mark.parametrize(
    "change",
    [
        lambda metadata: metadata.update(format="2"),
        lambda metadata: metadata.update(key="{}"),
        lambda metadata: metadata.update(key="no JSON"),
        lambda metadata: metadata.update(exact="true"),
        lambda metadata: metadata.update(seal="0" * 64),
        lambda metadata: metadata.pop("seal"),
        lambda metadata: metadata.clear(),
    ],
    ids=["future format", "other key", "no key", "exact", "other seal", "no seal", "nothing"],
)
def test_a_file_that_says_something_else_is_removed(tier, change):
    tier.put(KEY, entry((1, 2, 3)))
    (path,) = files_of(tier)
    rewritten(path, change)
    assert tier.longest(KEY, [1, 2, 3, 4]) is None
    assert not path.exists()


def test_files_that_changed_places_are_removed(tier):
    tier.put(KEY, entry((1, 2, 3)))
    tier.put(KEY, entry((4, 5, 6)))
    tier.put(OTHER, entry((7, 8, 9)))
    by_key = sorted(files_of(tier), key=lambda path: path.parent.name == OTHER.digest[:32])
    a, b, other = by_key
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    assert tier.longest(KEY, [1, 2, 3, 0]) is None
    assert tier.longest(KEY, [4, 5, 6, 0]) is None
    shutil.copy(other, a.parent / other.name)
    assert tier.longest(KEY, [7, 8, 9, 0]) is None
    assert files_of(tier) == [other]


def test_ten_thousand_strange_files_change_nothing(tier):
    kept = entry((1, 2, 3))
    tier.put(KEY, kept)
    folder = tier._place(KEY)
    draw = random.Random(6)
    for i in range(10_000):
        stem = "".join(draw.choices("0123456789abcdeftx-.", k=12))
        name = f"{i}{stem}.safetensors" if i % 2 else f"3t-{i:012x}.safetensors"
        (folder / name).touch()
    (folder / "1t-0000.safetensors").mkdir()
    assert same(tier.longest(KEY, [1, 2, 3, 4]).entry, kept)
    tier.put(KEY, entry((1, 2, 3, 4)))
    assert tier.longest(KEY, [1, 2, 3, 4, 5]).length == 3


# ---- disks that do not take it ----


def test_a_full_disk_is_one_warning_and_leaves_nothing(tmp_path, warnings):
    with small(tmp_path / "disk") as folder:
        tier = tier_in(folder, warnings)
        kept = entry((1, 2, 3))
        tier.put(KEY, kept)
        big = Entry((4, 5, 6), [mx.zeros((300_000,))], [], False)
        for _ in range(3):
            tier.put(KEY, big)
        assert len(warnings) == 1
        assert "No space left on device" in warnings[0]
        assert [path.name for path in folder.rglob("*") if path.is_file()] == [
            "cache.lock", name_of(kept.tokens, False)
        ]  # fmt: skip
        found = tier.longest(KEY, [1, 2, 3, 4])
        assert found and same(found.entry, kept)


def test_a_read_only_disk_is_one_warning(tmp_path, warnings):
    with read_only(tmp_path / "disk") as folder:
        tier = tier_in(folder, warnings)
        for tokens in ((1, 2), (3, 4)):
            tier.put(KEY, entry(tokens))
        assert len(warnings) == 1
        assert "Read-only file system" in warnings[0]
        assert tier.longest(KEY, [1, 2, 3]) is None


def test_a_write_that_fails_halfway_is_one_warning(tier, warnings, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    tier.put(KEY, entry((1, 2, 3)))
    monkeypatch.setattr(os, "fsync", full)
    tier.put(KEY, entry((4, 5, 6)))
    tier.put(KEY, entry((7, 8, 9)))
    root = tier.folder.root
    assert warnings == [f"the prefix cache in {root} cannot be written: No space left on device"]
    assert [path.name for path in tier.folder.root.rglob("*") if path.is_file()] == [
        name_of((1, 2, 3), False)
    ]


@pytest.mark.parametrize(("own", "told"), [(False, 1), (True, 0)])
def test_a_cap_of_nothing_writes_nothing_and_is_told_unless_it_was_asked_for(
    tmp_path, warnings, own, told
):
    tier = tier_in(tmp_path, warnings, cap=0, own=own)
    for tokens in ((1, 2, 3), (4, 5, 6)):
        tier.put(KEY, entry(tokens))
    assert (files_of(tier), len(warnings)) == ([], told)
    assert not told or "the prefix cache there is off (a test)" in warnings[0]


def test_a_folder_in_the_place_of_an_entry_is_one_warning(tmp_path, tier, warnings):
    one = entry(range(40))
    (tmp_path / "cache" / "p" / KEY.digest[:32] / name_of(one.tokens, one.exact)).mkdir(
        parents=True
    )
    tier.put(KEY, one)
    tier.put(KEY, entry(range(50)))
    assert tier.longest(KEY, range(40)) is None
    (warning,) = warnings
    assert warning.endswith("cannot be written: Is a directory")


def test_nothing_is_read_or_removed_through_a_link(tmp_path, tier, warnings):
    tier.put(KEY, entry(range(40)))
    ours, elsewhere = tmp_path / "cache" / "p", tmp_path / "elsewhere"
    ours.rename(elsewhere)
    ours.symlink_to(elsewhere)
    assert tier.longest(KEY, range(40)) is None
    assert len(list(elsewhere.rglob("*.safetensors"))) == 1


def test_a_pipe_named_like_an_entry_is_no_entry(tmp_path, tier):
    one = entry(range(40))
    place = tmp_path / "cache" / "p" / KEY.digest[:32]
    place.mkdir(parents=True)
    os.mkfifo(place / name_of(one.tokens, one.exact))
    assert tier.longest(KEY, range(40)) is None
