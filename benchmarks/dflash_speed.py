"""DFlash against the PyPI package `dflash`, and what quantising the drafter costs and gives.

    pip install --no-deps dflash==0.1.0
    python -m benchmarks.dflash_speed [peer] [bits] [--block 4 8] [--classes explain code]

peer  decode rate ÷ that of `dflash.model_mlx.stream_generate`: same weights, prompts and block,
      interleaved in one process; the package's text is not detokenised here, to its favour.
      `same` drafts over all tokens as the package does, `ours` over the common ones
bits  acceptance, decode rate and memory of the drafter in the target's precision, 8 and 4 bits

Both without a name.
"""

import argparse
import statistics
import time

import dflash.model_mlx as package
import mlx.core as mx

from benchmarks import harness
from benchmarks.dflash_parity import Silent, load_package_drafter
from benchmarks.harness import (
    Engine,
    Stream,
    interleaved,
    ours,
    peer_model,
    prompts,
    rate,
    rendered,
)
from llm_specdec.backends import Tokens
from llm_specdec.backends.local import sessions
from llm_specdec.drafters.dflash import drafter as dflash
from llm_specdec.drafters.dflash.drafter import DFlashDrafter
from llm_specdec.engine.session import Session, Weights


def package_engine(block: int) -> Engine:
    loaded = harness.smol()
    model = peer_model("smollm2", loaded.target)[0]  # its own: the package taps it
    draft = load_package_drafter(harness.models() / "drafters" / "dflash2")
    eos = frozenset(loaded.tokenizer.eos_token_ids)

    def engine(prompt: list[int], max_tokens: int) -> Stream:
        answers = package.stream_generate(
            model, draft, Silent(eos), mx.array(prompt), block, max_tokens
        )
        return (Tokens(answer.tokens) for answer in answers if answer.tokens)

    return engine


def peer(args: argparse.Namespace) -> None:
    loaded = harness.smol("dflash")
    same = sessions.joined(loaded.weights, loaded.target, whole(loaded))
    print("class      block  same ÷ package  ours ÷ package  text")
    for block in args.block:
        engines = {
            "same": ours(same, block - 1),
            "ours": ours(loaded, block - 1),
            "package": package_engine(block),
        }
        for kind in args.classes:
            ratios, equal = [], True
            for prompt in prompts([kind])[: args.prompts]:
                ids = rendered(loaded.tokenizer, prompt.text)
                runs = interleaved(engines, ids, args.max_tokens, args.runs)
                peers = rate(runs["package"])
                ratios.append((rate(runs["same"]) / peers, rate(runs["ours"]) / peers))
                equal = equal and len({tuple(run[0].tokens) for run in runs.values()}) == 1
            one, other = (statistics.median(column) for column in zip(*ratios, strict=True))
            text = "equal" if equal else "differs"
            print(f"{kind:<9} {block:>6}  {one:>14.3f}  {other:>14.3f}  {text}", flush=True)


def whole(loaded: Session) -> DFlashDrafter:
    """The same drafter, drafting over all tokens."""
    assert loaded.weights.drafter is not None
    return dflash.load(loaded.weights.drafter, loaded.target)


def bits(args: argparse.Namespace) -> None:
    print("bits  drafter MB  accepted of drafted  decode ÷ none")
    plain = ours(harness.smol())
    for width in (None, 8, 4):
        loaded, megabytes = quantised(width)
        engines = {"none": plain, "dflash": ours(loaded, args.block[0] - 1)}
        ratios, accepted, drafted = [], 0, 0
        for prompt in (p for kind in args.classes for p in prompts([kind])[: args.prompts]):
            ids = rendered(loaded.tokenizer, prompt.text)
            runs = interleaved(engines, ids, args.max_tokens, args.runs)
            ratios.append(rate(runs["dflash"]) / rate(runs["none"]))
            for run in runs["dflash"]:
                accepted += run.outcome.accepted
                drafted += run.outcome.drafted
        print(
            f"{width or 'own':>4}  {megabytes:>10.1f}  {accepted / drafted:>19.3f}  "
            f"{statistics.median(ratios):>13.3f}",
            flush=True,
        )


def quantised(width: int | None) -> tuple[Session, float]:
    """The session, and the memory that its drafter takes."""
    folder = harness.models()
    drafter = folder / "drafters" / "dflash2"
    harness.smol()
    before = mx.get_active_memory()
    loaded = sessions.load(Weights(folder / "smollm2", "dflash", drafter, width, 64))
    loaded.target.model.update(harness.arrays())
    return loaded, (mx.get_active_memory() - before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    suites = {"peer": peer, "bits": bits}
    parser.add_argument("suites", nargs="*", choices=[*suites, []], metavar="suite")
    parser.add_argument("--block", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--classes", nargs="+", default=["explain", "code", "prose"])
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each class")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    print(time.strftime("%Y-%m-%d"))
    for name in args.suites or suites:
        suites[name](args)


if __name__ == "__main__":
    main()
