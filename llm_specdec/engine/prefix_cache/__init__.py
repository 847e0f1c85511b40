"""The prefix cache: states of target and drafter, kept so that a prompt that begins as an
earlier one did is not read again.

    Key, Entry, Found, Tier      what is kept, under what, and how it is asked for (entry.py)
"""

from llm_specdec.engine.prefix_cache.entry import Entry, Found, Key, Tier, usable

__all__ = ["Entry", "Found", "Key", "Tier", "usable"]
