"""Does the adaptive draft length find the best one, and does it never lose?

    python -m benchmarks.auto mtp dflash model adversary [--lengths 1 2 3 4] [--classes code]

For every lane and class of prompts, measured in one process and interleaved: decode rates of
fixed lengths and of `auto` as multiples of the plain rate. `adversary` proposes tokens that are
always wrong, at the price of the MTP head: what the worst drafter costs. `worst` is the prompt
on which `auto` did worst.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

import mlx.core as mx

from benchmarks.efficiency import FOLDERS
from benchmarks.harness import Engine, interleaved, ours, prompts, rate, rendered, smol
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.mtp.drafter import MTPDrafter
from llm_specdec.engine.drafter import Draw, Proposal
from llm_specdec.engine.session import Session, Weights


class Adversary(MTPDrafter):
    """The head's proposals, each moved to a token that the head itself found unlikely."""

    def propose(self, k: int, draw: Draw) -> Proposal:
        proposal = super().propose(k, draw)
        return Proposal((proposal.tokens + 7919) % self.target.vocab_size)


def session(lane: str) -> Session:
    if lane != "adversary":
        return smol(lane, FOLDERS.get(lane, "smollm2"))
    loaded = smol("mtp", FOLDERS["mtp"])
    head = loaded.drafter
    assert isinstance(head, MTPDrafter)
    adversary = Adversary(head.head, head.target, head.taps[0])
    return sessions.joined(Weights(loaded.weights.target, "mtp"), loaded.target, adversary)


def engines(lane: str, lengths: Sequence[int]) -> dict[str, Engine]:
    """The plain one, one for each length, and `auto`, each with a drafter of its own."""
    adaptive = session(lane)
    found = {"none": ours(smol())} | {str(k): ours(session(lane), k) for k in lengths}
    costs = adaptive.costs(dict(adaptive.measure()))
    return found | {"auto": ours(adaptive, "auto", costs=costs)}


def row(
    engines: dict[str, Engine], ids: list[int], args: argparse.Namespace
) -> tuple[list[float], bool]:
    """Rates for each length and `auto`, as multiples of the plain one; whether all texts agree."""
    found = interleaved(engines, ids, args.max_tokens, args.runs)
    plain = rate(found["none"])
    texts = {tuple(run.tokens) for runs in found.values() for run in runs}
    return [rate(runs) / plain for name, runs in found.items() if name != "none"], len(texts) == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    lanes = ["mtp", "dflash", "model", "lookup", "adversary"]
    parser.add_argument("lanes", nargs="*", choices=[*lanes, []], metavar="lane")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--classes", nargs="+", default=["explain", "code"])
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each class")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    print(time.strftime("%Y-%m-%d"), mx.default_device(), "decode rate ÷ plain decode rate")
    heads = "".join(f"{k:>7}" for k in args.lengths)
    print(f"lane       class   {heads}   auto  auto ÷ best  worst  text")
    tokenizer = smol().tokenizer
    for lane in args.lanes or lanes:
        lane_engines = engines(lane, args.lengths)
        for kind in args.classes:
            rows, equal = [], True
            for prompt in prompts([kind])[: args.prompts]:
                ids = rendered(tokenizer, prompt.text)
                ratios, same = row(lane_engines, ids, args)
                rows.append(ratios)
                equal = equal and same
            means = [statistics.fmean(column) for column in zip(*rows, strict=True)]
            best = max(1.0, *means[:-1])  # 1.0: the length 0
            shown = "".join(f"{mean:>7.2f}" for mean in means[:-1])
            print(
                f"{lane:<10} {kind:<8}{shown}{means[-1]:>7.2f}{means[-1] / best:>13.3f}"
                f"{min(ratios[-1] for ratios in rows):>7.2f}  {'equal' if equal else 'differs'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
