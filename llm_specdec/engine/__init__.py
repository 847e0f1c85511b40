"""Token ids in, token ids out. Imports mlx, as the tensors of drafters do.

session         a target with its drafter in memory: the door to all that follows
request         what a run is asked for, and what it counts
loop            a run: propose, verify, accept, roll back, commit
outcome         what comes of it

The parts of a run:
prefill         reading the prompt
drafting        the drafters under the policy: who drafts next
drafter         what a drafter is to the loop, and what the loop lends it
policy          how many draft tokens a round asks for, by costs, which measure finds
passes          passes through the target, plain ones launched ahead
sampling        from logits to tokens: penalise, constrain, draw, accept
committed       the text so far, and where it ends
prefix          states taken from the prefix cache and left for it (states)
phases          where the time goes

Below it:
target          the target model, one pass at a time
taps            its hidden states, for drafters that read them
rollback        its cache, with a way back from rejected draft tokens
tokenizer       as mlx-lm loads it, or restored from what was kept of it (tokenizer_snapshot)
mlx_lm_parts    mlx-lm without transformers
hardware        what mlx computes on; what makes its CPU backend fast

A fast BLAS must be in the process before mlx is, hence the call on import. On Linux the
mlx package alone computes nothing; that is said here, once, for every command. And mlx-lm's own
code must not have run yet where transformers is to stay out.
"""

import sys

from llm_specdec.engine.hardware import blas
from llm_specdec.errors import ResourceError

blas.preload()

try:
    import mlx.core  # noqa: F401
except ImportError as error:
    if sys.platform != "linux":
        raise ResourceError(f"mlx cannot be loaded: {error}") from error
    raise ResourceError(
        "mlx has no backend on this machine: llm install 'llm-specdec[cpu]', "
        "or 'llm-specdec[cuda13]' for an NVIDIA GPU"
    ) from error

from llm_specdec.engine import mlx_lm_parts  # noqa: E402, F401
