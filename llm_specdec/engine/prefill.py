"""Reading the prompt, a chunk a step."""

from collections.abc import Generator

import mlx.core as mx

from llm_specdec.engine.passes import Pass, Passes
from llm_specdec.engine.prefix import PrefixStates

STEP = 2048  # tokens a chunk, as mlx-lm's generate_step


def prefill(passes: Passes, prefix: PrefixStates, start: int) -> Generator[list[int], None, Pass]:
    """Read the prompt from position `start` on; the drafters follow, and states are kept where
    `prefix` wants them. Yields no tokens after each chunk but the last, and returns that one's
    pass: the last token goes alone, as only its row needs the output matrix."""
    prompt, boundaries = prefix.request.prompt, prefix.boundaries()
    stops = [*boundaries, len(prompt) - 1, len(prompt)]
    while True:
        stop = min(start + STEP, next(stop for stop in stops if stop > start))
        chunk = passes.forward(mx.array(list(prompt[start:stop])))
        if stop == len(prompt):
            return chunk
        prefix.drafting.extend(prompt[start + 1 : stop + 1], chunk.hidden)
        prefix.evaluate()
        if stop in boundaries:
            prefix.checkpoint(prompt[: stop + 1])
        mx.clear_cache()
        yield []
        start = stop
