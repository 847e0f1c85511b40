"""How much the prefix cache may hold, on disk and in memory, and why that much.

A limit of the user's own stands in the registry's table [cache]; without one the disk decides.
Neither ever takes the last 10 GiB of a disk, whatever was asked for.
"""

import functools

from llm_specdec import memory
from llm_specdec.pairings.registry import Registry
from llm_specdec.prefix_cache.folder import Cap, Folder

GIB = 2**30
STAYS_FREE = 10 * GIB  # bytes of disk that the cache never takes
DEFAULT = 10 * GIB
HOT_DEFAULT = 4 * GIB


def disk_cap(limit: int | None, taken: int, free: int) -> Cap:
    """The cap on disk. What the cache holds itself counts as free, or it would shrink itself.

    limit: the user's own, None without one. taken, free: bytes in the folder, bytes free.
    """
    disk = free + taken
    most = Cap(max(0, disk - STAYS_FREE), "10 GiB of disk stay free")
    usual = [Cap(disk // 4, "a quarter of free disk"), Cap(DEFAULT, "10 GiB, the default")]
    return _least(most, limit, usual)


def hot_cap(limit: int | None, memory: int) -> Cap:
    """The cap in memory, in one process. memory: bytes there are where entries lie."""
    usual = [Cap(memory // 8, "an eighth of memory"), Cap(HOT_DEFAULT, "4 GiB, the default")]
    return _least(Cap(memory // 2, "half of memory"), limit, usual)


def _least(most: Cap, limit: int | None, usual: list[Cap]) -> Cap:
    """The user's limit, or what is usual without one; never more than `most`."""
    rules = usual if limit is None else [Cap(limit, "your limit", own=True)]
    return min([most, *rules], key=lambda rule: rule.nbytes)


def disk(known: Registry, taken: int, free: int) -> Cap:
    """The cap on disk that the registry and the disk allow."""
    return disk_cap(known.cache.get("limit"), taken, free)


def hot(known: Registry) -> Cap:
    """The cap in memory that the registry allows, and the device that holds entries."""
    return hot_cap(known.cache.get("hot"), memory.total_for_states())


def folder(known: Registry) -> Folder:
    """The folder beside the registry, under the cap that the registry and the disk allow."""
    return Folder(
        root=known.path.parent / "cache",
        cap=functools.partial(disk, known),
        pairings={*known.pairings, *known.problems},
    )
