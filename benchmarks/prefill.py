"""Reading a long prompt: ours at several chunk sizes against mlx-lm, taking turns in one process.

    python -m benchmarks.prefill [--tokens 2150] [--chunks 128 256 512 2048] [--runs 1]

Seconds to the first token of SmolLM2, and each over mlx-lm's own.
"""

import argparse
import time

import mlx.core as mx
from mlx_lm.generate import generate_step

from benchmarks.harness import completed, ours, peer_model, smol
from llm_specdec.engine import prefill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2150)
    parser.add_argument("--chunks", type=int, nargs="+", default=[128, 256, 512, 2048])
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    session = smol()
    engine, (model, _) = ours(session), peer_model("smollm2", session.target)
    prompt = [i % 4000 + 100 for i in range(args.tokens)]

    def mlx_lm() -> int:
        start = time.perf_counter()
        token, _ = next(generate_step(mx.array(prompt), model, max_tokens=1))
        seconds["mlx-lm"].append(time.perf_counter() - start)
        return int(token)

    def at(chunk: int) -> int:
        prefill.CHUNK[mx.default_device().type] = chunk
        result = completed(engine, prompt, 1)
        seconds[str(chunk)].append(result.ttft_ms / 1000)
        return result.completion_ids[0]

    seconds: dict[str, list[float]] = {name: [] for name in ("mlx-lm", *map(str, args.chunks))}
    for _ in range(args.runs):
        first = {mlx_lm(), *map(at, args.chunks)}
        print("first token", "equal" if len(first) == 1 else "differs", flush=True)
    least = {name: min(times) for name, times in seconds.items()}
    for name, value in least.items():
        print(f"{name:>7} {value:7.2f} s   ÷ mlx-lm {value / least['mlx-lm']:.2f}")


if __name__ == "__main__":
    main()
