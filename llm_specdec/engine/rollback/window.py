"""Keys and values of a sliding-window layer that can go back."""

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask


class WindowKVCache:
    """Keys and values of a sliding-window layer, in temporal order.

    Attention sees what mlx-lm's RotatingKVCache shows it: up to max_size - 1 earlier rows and
    the new ones. Rows are dropped when room runs out, every `spare` tokens; `slack` rows stay
    beyond those that the window needs, for lengths before the current one.
    Shapes: keys, values (1, heads, room, head_dim); row i is position start + i.
    """

    spare = 256

    def __init__(self, max_size: int, slack: int) -> None:
        self.max_size, self.slack = max_size, slack
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self.offset = 0
        self.start = 0
        self._shown = 0  # first position that the last forward attends to

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        new = keys.shape[2]
        self._shown = self.offset - min(self.offset, self.max_size - 1)
        if self.keys is None or self.offset - self.start + new > self.keys.shape[2]:
            start = max(self.start, self._shown - self.slack)
            self.keys = self._room(self.keys, keys, start)
            self.values = self._room(self.values, values, start)
            self.start = start
        row = self.offset - self.start
        self.keys[..., row : row + new, :] = keys
        assert self.values is not None
        self.values[..., row : row + new, :] = values
        self.offset += new
        return self.keys_and_values()

    def _room(self, old: mx.array | None, new: mx.array, start: int) -> mx.array:
        shape = (*new.shape[:2], new.shape[2] + self.spare, new.shape[3])
        room = mx.zeros(shape, new.dtype)
        if old is None:
            return room
        kept = old[..., start - self.start : self.offset - self.start, :]
        return mx.concatenate([kept, room], axis=2)

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """What the last forward attends to; layers that share these keys read it again."""
        assert self.keys is not None and self.values is not None
        rows = slice(self._shown - self.start, self.offset - self.start)
        return self.keys[..., rows, :], self.values[..., rows, :]

    def make_mask(
        self, n: int, window_size: int | None = None, return_array: bool = False
    ) -> mx.array | str | None:
        before = min(self.offset, self.max_size - 1)
        window = window_size or self.max_size
        if n == 1 and before < window:
            return None
        if n == 1 or before + n > window or return_array:
            mask: mx.array = create_causal_mask(n, before, window_size=window)
            return mask
        return "causal"

    def empty(self) -> bool:
        return self.keys is None
