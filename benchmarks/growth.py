"""What a longer context costs: decode rate, verify and draft time, host overhead.

    python -m benchmarks.growth [none mtp dflash] [--contexts 256 1024 4096 8064] [--max-tokens 64]

Host is what a round spends outside draft and verify: going back after a rejection,
bookkeeping, whatever runs between rounds. Drafts have one length, so that rounds are alike
at every context. Milliseconds a round, medians over the runs; the
last line of a lane sets the longest context against the shortest.
"""

import argparse
import itertools
import statistics
import time
from dataclasses import dataclass

from benchmarks import harness
from benchmarks.efficiency import FOLDERS
from benchmarks.harness import prompts
from llm_specdec.engine.session import Session


@dataclass(frozen=True)
class Row:
    rate: float  # tokens a second after the first
    draft: float  # ms a round, as are the next two
    verify: float
    host: float

    @property
    def share(self) -> float:
        return self.host / (self.draft + self.verify + self.host)


def prompt_of(tokenizer: object, length: int) -> list[int]:
    """Prose and code of the cases, over and over, `length` tokens of it."""
    text = "\n\n".join(p.text for p in prompts(["prose", "code", "copy", "explain"]))
    ids = harness.rendered(tokenizer, text)
    return list(itertools.islice(itertools.cycle(ids), length))


def decoded(loaded: Session, draft_tokens: int, prompt: list[int], max_tokens: int) -> Row:
    engine = harness.ours(loaded, draft_tokens, ignore_eos=True)
    result = harness.completed(engine, prompt, max_tokens)
    phases, rounds = result.phases_ms, result.rounds
    host = phases["replay"] + phases["commit"] + phases["other"]
    return Row(
        rate=1000 * (max_tokens - 1) / (result.wall_ms - result.ttft_ms),
        draft=phases["draft"] / rounds,
        verify=phases["verify"] / rounds,
        host=host / rounds,
    )


def median(rows: list[Row]) -> Row:
    columns = zip(*([r.rate, r.draft, r.verify, r.host] for r in rows), strict=True)
    return Row(*(statistics.median(column) for column in columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lanes", nargs="*", default=["none", "mtp"])
    parser.add_argument("--contexts", type=int, nargs="+", default=[256, 1024, 4096, 8064])
    parser.add_argument("--draft-tokens", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    print(time.strftime("%Y-%m-%d"), "milliseconds a round")
    print("lane    context   tok/s   draft  verify    host  host share")
    for lane in args.lanes:
        loaded = harness.smol(lane, FOLDERS.get(lane, "smollm2"))
        rows = []
        for context in args.contexts:
            prompt = prompt_of(loaded.tokenizer, context)
            runs = [
                decoded(loaded, args.draft_tokens, prompt, args.max_tokens)
                for _ in range(args.runs)
            ]
            row = median(runs)
            rows.append(row)
            print(
                f"{lane:<8}{context:>7}{row.rate:>8.2f}{row.draft:>8.2f}{row.verify:>8.2f}"
                f"{row.host:>8.3f}{100 * row.share:>10.2f} %",
                flush=True,
            )
        print(f"{lane}: host, longest ÷ shortest context: {rows[-1].host / rows[0].host:.2f}")


if __name__ == "__main__":
    main()
