"""The target's cache, with a way back from rejected draft tokens for every kind of layer.

    cache = RollbackCache(model, max_draft=8)
    cache.before_forward(n)                              # n: rows of the forward to come
    logits = model(tokens[None], cache=cache.layers)     # tokens (n,)
    cache.rollback(length)                               # the first `length` tokens stay

`length` is absolute, so a rollback done twice (after an interrupt, say) is done once, and one
to the current length is free. It reaches any length of the last forward and the start of the
`forwards` last ones, further where the kind allows it (`can_rollback`). What happens inside:

- full attention (also quantised): positions beyond `length` are overwritten later;
- sliding window: our own cache in temporal order, which keeps enough rows behind the window
  that a shorter length still finds all it attends to;
- recurrent (GatedDeltaNet, Mamba, short convolutions, RWKV): the states before the last
  forwards are kept, as references. The modules' inputs are kept while at most max_draft + 1
  tokens are verified, and the modules themselves are run again on the rows to keep. MLX is
  lazy: only what the state depends on is computed, the outputs are not.
"""

from llm_specdec.engine.rollback.cache import RollbackCache
from llm_specdec.engine.rollback.window import WindowKVCache

__all__ = ["RollbackCache", "WindowKVCache"]
