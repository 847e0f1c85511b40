"""Ours against the peers: same weights, prompts and settings, interleaved in one process.

    python -m benchmarks.peers [--runs 3] [--max-tokens 96] [--prompts 2]

Every figure is a ratio of median decode rates; above 1 ours is faster. Rates themselves depend
on the machine, so they are printed for orientation only.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

from mlx_lm import stream_generate
from mlx_lm.sample_utils import make_sampler

from benchmarks.harness import (
    Engine,
    Prompt,
    Timed,
    interleaved,
    ours,
    prompts,
    rate,
    rendered,
    smol,
)
from llm_specdec.engine.loop import Tally
from llm_specdec.engine.transforms import Sampling


def mlx_lm_engine(
    model: Any, tokenizer: Any, draft_model: Any = None, k: int = 2, temperature: float = 0.0
) -> Engine:
    """mlx_lm.stream_generate; its tally counts what it says came from the draft."""

    def engine(prompt: list[int], max_tokens: int) -> tuple[Any, Tally]:
        tally = Tally()
        more: dict[str, Any] = {"sampler": make_sampler(temp=temperature)}
        if draft_model is not None:
            more |= {"draft_model": draft_model, "num_draft_tokens": k}

        def tokens() -> Any:
            for answer in stream_generate(model, tokenizer, prompt, max_tokens=max_tokens, **more):
                tally.accepted += answer.from_draft
                tally.rounds += not answer.from_draft
                yield [answer.token]
            tally.drafted = k * tally.rounds

        return tokens(), tally

    return engine


def compared(
    title: str, engines: dict[str, Engine], chosen: Sequence[Prompt], tokenizer: Any, args: Any
) -> None:
    """Print the ratio of the first engine to each other one, over all prompts."""
    ratios: dict[str, list[float]] = {}
    accepted: dict[str, list[int]] = {}
    first, *others = engines
    for prompt in chosen:
        ids = rendered(tokenizer, prompt.text)
        runs = interleaved(engines, ids, args.max_tokens, args.runs)
        for name, timings in runs.items():
            counted = accepted.setdefault(name, [0, 0])
            for timing in timings:
                assert timing.tally is not None
                counted[0] += timing.tally.accepted
                counted[1] += timing.tally.drafted
        for other in others:
            ratios.setdefault(other, []).append(rate(runs[first]) / rate(runs[other]))
        same = len({tuple(t.tokens) for t in _first_runs(runs)}) == 1
        print(f"  {prompt.id:<10} {_rates(runs)}  text {'equal' if same else 'differs'}")
    for other in others:
        print(f"{title}: {first} ÷ {other} = {statistics.median(ratios[other]):.3f}")
    for name, (kept, drafted) in accepted.items():
        if drafted:
            print(f"  accepted of drafted, {name}: {kept}/{drafted} = {kept / drafted:.3f}")


def _first_runs(runs: dict[str, list[Timed]]) -> list[Timed]:
    return [timings[0] for timings in runs.values()]


def _rates(runs: dict[str, list[Timed]]) -> str:
    return "  ".join(f"{name} {rate(timings):6.2f} tok/s" for name, timings in runs.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each class")
    parser.add_argument("--only", choices=["none", "model", "sampled", "lookup"])
    args = parser.parse_args()

    none, small, lookup = smol("none"), smol("model"), smol("lookup")
    tokenizer, model = none.tokenizer, none.target.model
    draft_model = small.drafter._model.model  # type: ignore[union-attr]
    mixed = [p for kind in ("explain", "code") for p in prompts([kind])[: args.prompts]]
    hot = Sampling(temperature=0.8)
    suites = {
        "none": (
            {"ours": ours(none), "mlx-lm": mlx_lm_engine(model, tokenizer)},
            mixed,
        ),
        "model": (
            {
                "ours": ours(small, 2),
                "mlx-lm": mlx_lm_engine(model, tokenizer, draft_model),
                "none": ours(none),
            },
            mixed,
        ),
        "sampled": (
            {
                "ours": ours(small, 2, hot),
                "mlx-lm": mlx_lm_engine(model, tokenizer, draft_model, temperature=0.8),
            },
            mixed,
        ),
        "lookup": (
            {"ours": ours(lookup), "none": ours(none)},
            prompts(["copy"])[: args.prompts],
        ),
    }
    print(time.strftime("%Y-%m-%d"))
    for name, (engines, chosen) in suites.items():
        if args.only in (None, name):
            compared(name, engines, chosen, tokenizer, args)


if __name__ == "__main__":
    main()
