"""The prefix cache: states of target and drafter, kept so that a prompt that begins as an
earlier one did is not read again.

    Key, Entry, Found, Tier      what is kept, under what, and how it is asked for (entry.py)
    Index                        token sequences by their beginnings (index.py)
    RamTier                      hot entries of this process (ram.py)
    PrefixCache                  one look-up over memory and disk (lookup.py)
"""

from llm_specdec.engine.prefix_cache.entry import Entry, Found, Key, Tier, usable
from llm_specdec.engine.prefix_cache.index import Index
from llm_specdec.engine.prefix_cache.lookup import PrefixCache
from llm_specdec.engine.prefix_cache.ram import RamTier

__all__ = ["Entry", "Found", "Index", "Key", "PrefixCache", "RamTier", "Tier", "usable"]
