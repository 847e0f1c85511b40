"""The prefix cache: states of target and drafter are kept, so that a prompt that begins as an
earlier one did is not read again.

process       the cache as this process uses it: hot entries, beside those on disk
lookup        one look-up over memory and disk, for one key
keys          what states depend on beside the tokens
matching      how much of an entry a prompt can use
ram, index    entries in memory, found by their beginnings
disk, names   entries in files, whose names tell which are worth opening
folder        the files: who writes, how much room there is, what goes first
limits        how much the cache may hold, and why

An entry itself, and how it becomes a file, is the engine's (`engine/states.py`): process, folder
and limits import nothing heavy.
"""
