"""Reading the prompt, a chunk a step.

On the CPU a small chunk stays in the processor's caches from one operation to the next, and an
interrupt is heard after each. Measured on two x86 cores in float32, SmolLM2-135M, 2,150 tokens:
11.3 s in chunks of 128, 12.0 of 64, 11.4 of 256, 13.1 of 512, and 17 of 2,048. A GPU wants many
rows at a time.
"""

from collections.abc import Generator

import mlx.core as mx

from llm_specdec.engine.passes import Pass, Passes
from llm_specdec.engine.prefix import PrefixStates

CHUNK = {mx.DeviceType.cpu: 128, mx.DeviceType.gpu: 2048}  # tokens; mlx-lm's are 2,048


def chunk_size() -> int:
    """Tokens a chunk on the device that computes."""
    return CHUNK[mx.default_device().type]


def prefill(passes: Passes, prefix: PrefixStates, start: int) -> Generator[list[int], None, Pass]:
    """Read the prompt from position `start` on; the drafters follow, and states are kept where
    `prefix` wants them. Yields no tokens after each chunk but the last, and returns that one's
    pass: the last token goes alone, as only its row needs the output matrix."""
    prompt, boundaries = prefix.request.prompt, prefix.boundaries()
    stops, size = [*boundaries, len(prompt) - 1, len(prompt)], chunk_size()
    while True:
        stop = min(start + size, next(stop for stop in stops if stop > start))
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
