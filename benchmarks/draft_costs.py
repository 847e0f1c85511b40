"""What a draft token costs, and a round on the host, for each kind of drafter.

    python -m benchmarks.draft_costs [--lengths 1 4] [--runs 9]

On SmolLM2, whose drafters are trained or of random weights (`benchmarks.coached`); an assistant
beside a random Gemma 4 of that size. Between two drafts the target reads a token, as in a run. A
draft is in passes of its target over one token; on the host: until all is handed to the device.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import mlx.core as mx

from benchmarks import coached
from benchmarks.harness import smol
from fixtures.zoo import Coached
from llm_specdec.engine.drafter import Drafter
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.draft_sampler import DraftSampler
from llm_specdec.engine.sampling.sampler import Sampler
from llm_specdec.engine.session import Session
from llm_specdec.engine.taps import Taps

CONTEXT = 256  # tokens
FOLDERS = {"mtp": "smollm2-mtp", "dflash": "smollm2", "model": "smollm2"}


def session(kind: str, place: Path) -> Session:
    if kind in FOLDERS:
        return smol(kind, FOLDERS[kind])
    return coached.three_sessions(kind, place)[1]


def measured(loaded: Session, k: int, runs: int) -> tuple[float, float, float]:
    """Seconds of a target pass, of a draft until it is handed over, and until it is there."""
    target, drafter = loaded.target, loaded.drafter
    assert drafter is not None
    one: Drafter = drafter._drafter if isinstance(drafter, Coached) else drafter
    cache = RollbackCache(target.model, max_draft=k)
    tokens = [(7 * i) % 1000 for i in range(CONTEXT + 4 * runs)]
    seconds: list[tuple[float, float, float]] = []
    with Taps(target.model, one.taps) as taps:
        mx.eval(target.forward(mx.array(tokens[:CONTEXT]), cache))
        one.start(tokens[0])
        one.extend(tokens[1 : CONTEXT + 1], taps.take())
        mx.eval(one.state())
        for i in range(CONTEXT, CONTEXT + runs + 2):
            begin = time.perf_counter()
            mx.eval(target.forward(mx.array(tokens[i : i + 1]), cache))
            read = time.perf_counter()
            one.extend(tokens[i + 1 : i + 2], taps.take())
            start = time.perf_counter()
            sampler = Sampler(Request([0], 1), target.vocab_size)
            proposal = one.propose(k, DraftSampler(sampler, cache))
            handed = time.perf_counter()
            mx.eval(proposal.tokens)
            seconds.append((read - begin, handed - start, time.perf_counter() - start))
    target_pass, host, draft = (statistics.median(part) for part in zip(*seconds[2:], strict=True))
    return target_pass, host, draft


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    print(time.strftime("%Y-%m-%d"), mx.default_device())
    print("kind       k   host ms   draft ÷ pass   a token ÷ pass")
    for kind in (*FOLDERS, *coached.WRITERS):
        with tempfile.TemporaryDirectory() as place:
            loaded = session(kind, Path(place))
            for k in args.lengths:
                target_pass, host, draft = measured(loaded, k, args.runs)
                share = draft / target_pass
                print(
                    f"{kind:<9} {k:>2}  {1000 * host:>8.2f}  {share:>13.2f}  {share / k:>15.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
