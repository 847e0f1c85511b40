"""Processes that write the prefix cache, to be read beside or killed.

An entry is made from its first token, so that a reader knows what must be in it.
"""

import multiprocessing
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from llm_specdec.engine.prefix_cache import Entry, Key
from llm_specdec.engine.prefix_cache.disk import DiskTier, read_head
from llm_specdec.prefix_store import Cap, Store

KEY = Key({"weights": "none"})
CAP = 4_500_000  # bytes: four entries
LONGEST = 0.15  # seconds that a writer lives

# A forked process starts at once; after a fork Metal does not work.
processes: Any = multiprocessing.get_context("spawn" if sys.platform == "darwin" else "forkserver")
processes.set_forkserver_preload(["llm_specdec.engine.prefix_cache.disk"])


def tier(root: Path) -> DiskTier:
    def warn(text: str) -> None:
        raise AssertionError(text)

    return DiskTier(Store(root, lambda held, free: Cap(CAP, "a test"), {"p"}), "p", warn)


def entry(number: int) -> Entry:
    """About a megabyte that only this number makes."""
    draw = np.random.default_rng(number)
    tokens = (number, *draw.integers(0, 99, 40).tolist())
    states = [mx.array(draw.standard_normal((1, 4, 40, 200), dtype=np.float32)) for _ in range(8)]
    return Entry(tokens, states[:7], states[7:], exact=number % 2 == 0)


def write_until_killed(root: Path, seed: int) -> None:
    draw = random.Random(seed)
    while True:
        tier(root).put(KEY, entry(draw.randrange(2**31)))


def start_writer(root: Path, seed: int) -> Any:
    writer = processes.Process(target=write_until_killed, args=(root, seed))
    writer.start()
    return writer


def check(root: Path) -> Counter[str]:
    """What is there while nobody writes: whole entries and half-written files. Raises
    AssertionError where the folder is over its cap or an entry is not what it should be."""
    found = tier(root).store.contents()
    assert found.nbytes <= CAP, f"{found.nbytes} bytes, the cap is {CAP}"
    assert not found.foreign
    return Counter(entries=read_all(root), half_written=len(found.leftovers))


def read_all(root: Path) -> int:
    """How many entries could be read; AssertionError where one is not what its tokens say."""
    return sum(_is_right(root, held.path) for held in tier(root).store.contents().entries)


def _is_right(root: Path, path: Path) -> bool:
    """False for an entry that was evicted meanwhile."""
    try:
        with path.open("rb") as file:
            _, tokens = read_head(file)
    except FileNotFoundError:
        return False
    found = tier(root).longest(KEY, [*tokens, 0])
    if found is None:
        assert not path.exists(), f"{path} is damaged"
        return False
    right = entry(tokens[0])
    ours, theirs = [*right.target, *right.drafter], [*found.entry.target, *found.entry.drafter]
    assert right.tokens == found.entry.tokens
    assert all(mx.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    return True


def kill_writers(root: Path, runs: int, seed: int = 0) -> Counter[str]:
    """Start a writer and kill it, `runs` times; the sum of what was found after each."""
    draw = random.Random(seed)
    found: Counter[str] = Counter()
    for _ in range(runs):
        writer = start_writer(root, draw.randrange(2**31))
        time.sleep(draw.random() * LONGEST)
        writer.kill()
        writer.join()
        found += check(root) + Counter(runs=1)
    return found
