"""Ours against the peers: same weights, prompts and settings, interleaved in one process.

    pip install --no-deps dflash==0.1.0      (for the suite dflash)
    python -m benchmarks.peers [none model sampled dflash lookup] [--runs 3] [--prompts 2]

Every figure is a ratio of median decode rates; above 1 ours is faster. Rates themselves depend
on the machine, so they are printed for orientation only. A peer runs at every length of
`--lengths`; ours at `auto` is set against the length that is best for the peer over all prompts.
The peers' models are mlx-lm's own classes over our arrays.
"""

import argparse
import functools
import statistics
import time
from collections.abc import Sequence
from typing import Any

from mlx_lm import stream_generate
from mlx_lm.sample_utils import make_sampler

from benchmarks import harness
from benchmarks.harness import (
    Counts,
    Engine,
    Prompt,
    Stream,
    Timed,
    interleaved,
    ours,
    peer_model,
    prompts,
    rate,
    rendered,
)
from llm_specdec.backends import Tokens
from llm_specdec.engine.session import Session

HOT = 0.8  # temperature


def mlx_lm_engine(draft: bool = False, k: int = 2, temperature: float = 0.0) -> Engine:
    """mlx_lm.stream_generate; its count is of what it says came from the draft."""
    model, tokenizer = peer_model("smollm2", harness.smol().target)
    more: dict[str, Any] = {"sampler": make_sampler(temp=temperature)}
    if draft:
        small = harness.smol("model").drafter._model  # type: ignore[union-attr]
        more |= {"draft_model": peer_model("drafters/model", small)[0], "num_draft_tokens": k}

    def engine(prompt: list[int], max_tokens: int) -> Stream:
        accepted = rounds = 0
        for answer in stream_generate(model, tokenizer, prompt, max_tokens=max_tokens, **more):
            accepted += answer.from_draft
            rounds += not answer.from_draft
            yield Tokens([answer.token])
        yield Counts(rounds, k * rounds if draft else 0, accepted)

    return engine


def auto(kind: str, temperature: float = 0.0) -> Engine:
    loaded = harness.smol(kind)
    return ours(loaded, "auto", costs_of(loaded), temperature=temperature)


@functools.cache
def costs_of(loaded: Session) -> Any:
    return loaded.costs(dict(loaded.measure()))


def engines(suite: str, lengths: Sequence[int]) -> dict[str, Engine]:
    """Ours first; then `none`, and the peer by length."""
    plain = ours(harness.smol())
    if suite == "none":
        return {"ours": plain, "mlx-lm": mlx_lm_engine()}
    if suite == "lookup":
        return {"ours": auto("lookup"), "none": plain}
    if suite == "model":
        peers = {f"mlx-lm {k}": mlx_lm_engine(True, k) for k in lengths}
        return {"ours": auto("model"), "none": plain, **peers}
    if suite == "sampled":
        peers = {f"mlx-lm {k}": mlx_lm_engine(True, k, HOT) for k in lengths}
        same = {f"ours {k}": ours(harness.smol("model"), k, temperature=HOT) for k in lengths[:2]}
        return {"ours": auto("model", HOT), **same, **peers}
    from benchmarks.dflash_speed import package_engine

    blocks = {f"dflash {k}": package_engine(k + 1) for k in lengths}
    return {"ours": auto("dflash"), "none": plain, **blocks}


Runs = dict[str, dict[str, list[Timed]]]  # prompt → engine → runs


def measured(chosen: Sequence[Prompt], engines: dict[str, Engine], args: Any, greedy: bool) -> Runs:
    tokenizer = harness.smol().tokenizer
    found: Runs = {}
    for prompt in chosen:
        ids = rendered(tokenizer, prompt.text)
        runs = found[prompt.id] = interleaved(engines, ids, args.max_tokens, args.runs)
        same = len({tuple(timings[0].tokens) for timings in runs.values()}) == 1
        rates = "  ".join(f"{name} {rate(timings):.1f}" for name, timings in runs.items())
        text = f"  text {'equal' if same else 'differs'}" if greedy else ""
        print(f"  {prompt.id:<10} {rates} tok/s{text}", flush=True)
    return found


def verdicts(suite: str, runs: Runs) -> None:
    """Ratios of ours to every other engine, the best peer marked, and what was accepted."""
    names = [name for name in next(iter(runs.values())) if name != "ours"]
    ratio = {
        name: statistics.fmean(rate(found["ours"]) / rate(found[name]) for found in runs.values())
        for name in names
    }
    peers = [name for name in names if name != "none" and not name.startswith("ours")]
    best = min(peers, key=ratio.__getitem__, default=None)
    for name in names:
        mark = "  ← the peer's best" if name == best and len(peers) > 1 else ""
        print(f"{suite}: ours ÷ {name} = {ratio[name]:.3f}{mark}")
    for name in ["ours", *names]:
        outcomes = [run.outcome for found in runs.values() for run in found[name]]
        kept, drafted = sum(o.accepted for o in outcomes), sum(o.drafted for o in outcomes)
        if drafted:
            print(f"  accepted of drafted, {name}: {kept}/{drafted} = {kept / drafted:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    suites = ["none", "model", "sampled", "dflash", "lookup"]
    parser.add_argument("suites", nargs="*", choices=[*suites, []], metavar="suite")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each class")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args()
    mixed = [p for kind in ("explain", "code") for p in prompts([kind])[: args.prompts]]
    print(time.strftime("%Y-%m-%d"))
    for suite in args.suites or suites:
        chosen = prompts(["copy"])[: args.prompts] if suite == "lookup" else mixed
        greedy = suite != "sampled"
        verdicts(suite, measured(chosen, engines(suite, args.lengths), args, greedy))


if __name__ == "__main__":
    main()
