"""The hot tier: entries of this process, the least recently used dropped first."""

from collections import OrderedDict, defaultdict
from collections.abc import Sequence

from llm_specdec.engine.states import Entry, Found
from llm_specdec.prefix_cache.index import Index, Tokens
from llm_specdec.prefix_cache.keys import Key
from llm_specdec.prefix_cache.matching import common, covers, usable

_Name = tuple[str, bool, Tokens]  # digest of the key, exact, tokens


class RamTier:
    """Holds up to `cap` bytes of states."""

    def __init__(self, cap: int) -> None:
        self.cap, self.nbytes = cap, 0
        self._entries: OrderedDict[_Name, Entry] = OrderedDict()  # least recently used first
        self._indexes: dict[tuple[str, bool], Index] = defaultdict(Index)

    def __len__(self) -> int:
        return len(self._entries)

    def longest(self, key: Key, prompt: Sequence[int], beyond: int = 0) -> Found | None:
        prompt = tuple(prompt)
        near = self._indexes[key.digest, False].nearest(prompt)
        whole = self._indexes[key.digest, True].whole(prompt)
        names = [(key.digest, exact, t) for exact, t in ((False, near), (True, whole)) if t]
        lengths = {name: usable(name[2], name[1], prompt) for name in names}
        name = max(lengths, key=lambda name: lengths[name], default=None)
        if name is None or lengths[name] <= beyond:
            return None
        self._entries.move_to_end(name)
        return Found(self._entries[name], lengths[name])

    def put(self, key: Key, entry: Entry) -> None:
        if entry.nbytes > self.cap:
            return
        index, n = self._indexes[key.digest, entry.exact], len(entry.tokens)
        if not entry.exact:
            # A state that can be cut stands for all its beginnings.
            longer = index.nearest(entry.tokens) or ()
            if len(longer) > n and longer[:n] == entry.tokens:
                self._entries.move_to_end((key.digest, False, longer))
                return
            while shorter := index.whole(entry.tokens):
                self._drop((key.digest, False, shorter))
            while (near := index.nearest(entry.tokens)) and _covered(near, entry.tokens):
                self._drop((key.digest, False, near))
        name = (key.digest, entry.exact, entry.tokens)
        if name in self._entries:
            self._drop(name)
        self._entries[name] = entry
        self.nbytes += entry.nbytes
        index.add(entry.tokens)
        self.limit(self.cap)

    def limit(self, cap: int) -> None:
        """Hold no more than `cap` bytes from now on."""
        self.cap = cap
        while self.nbytes > cap:
            self._drop(next(iter(self._entries)))

    def _drop(self, name: _Name) -> None:
        digest, exact, tokens = name
        self.nbytes -= self._entries.pop(name).nbytes
        self._indexes[digest, exact].remove(tokens)


def _covered(old: Tokens, new: Tokens) -> bool:
    return covers(common(old, new), len(old))
