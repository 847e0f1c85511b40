"""The prefix cache as runs use it: hot entries of this process, beside those on disk."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from llm_specdec import cache_limits, memory
from llm_specdec.pairings import registry

if TYPE_CHECKING:
    from llm_specdec.engine.prefix_cache import PrefixCache, RamTier
    from llm_specdec.engine.session import Session


def prefix_cache(
    session: "Session", pairing: str, kv_bits: int | None, warn: Callable[[str], None]
) -> "PrefixCache":
    """What is kept for these weights. warn: told where entries cannot be written to disk.

    Raises CheckpointError, RegistryError.
    """
    from llm_specdec.engine.prefix_cache import PrefixCache
    from llm_specdec.engine.prefix_cache.disk import DiskTier

    known, tier = registry.load(), hot()
    # A run comes first: entries make way where memory is short.
    spare = memory.free(resident=tier.nbytes).nbytes // 2
    tier.limit(min(cache_limits.hot(known).nbytes, spare))
    disk = DiskTier(cache_limits.store(known), pairing, warn)
    return PrefixCache(session.key(kv_bits), tier, disk)


@functools.cache
def hot() -> "RamTier":
    """The hot entries of this process, whatever pairing they are of."""
    from llm_specdec.engine.prefix_cache import RamTier

    return RamTier(cap=0)
