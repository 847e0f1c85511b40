"""The prefix cache as runs use it: hot entries of this process, beside those on disk."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from llm_specdec import cache_limits, registry

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

    known = registry.load()
    _hot().limit(cache_limits.hot(known).nbytes)
    disk = DiskTier(cache_limits.store(known), pairing, warn)
    return PrefixCache(session.key(kv_bits), _hot(), disk)


@functools.cache
def _hot() -> "RamTier":
    from llm_specdec.engine.prefix_cache import RamTier

    return RamTier(cap=0)


def bytes_in_memory() -> int:
    """What hot entries take: memory that a run cannot use for itself."""
    return _hot().nbytes
