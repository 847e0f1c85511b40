"""The prefix cache as this process uses it: its hot entries, beside those on disk."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from llm_specdec import memory
from llm_specdec.pairings import registry
from llm_specdec.prefix_cache import limits

if TYPE_CHECKING:
    from llm_specdec.engine.session import Session
    from llm_specdec.prefix_cache.lookup import PrefixCache
    from llm_specdec.prefix_cache.ram import RamTier


def cache_for(
    session: "Session", pairing: str, kv_bits: int | None, warn: Callable[[str], None]
) -> "PrefixCache":
    """What is kept for these weights. warn: called where entries cannot be written to disk.

    Raises CheckpointError, RegistryError.
    """
    from llm_specdec.prefix_cache.disk import DiskTier
    from llm_specdec.prefix_cache.keys import key_of
    from llm_specdec.prefix_cache.lookup import PrefixCache

    known, tier = registry.load(), hot()
    # A run comes first: entries make way where memory is short.
    spare = memory.of_states(resident=tier.nbytes).nbytes // 2
    tier.limit(min(limits.hot(known).nbytes, spare))
    disk = DiskTier(limits.folder(known), pairing, warn)
    return PrefixCache(key_of(session, kv_bits), tier, disk)


@functools.cache
def hot() -> "RamTier":
    """The hot entries of this process, whatever pairing they are of."""
    from llm_specdec.prefix_cache.ram import RamTier

    return RamTier(cap=0)
