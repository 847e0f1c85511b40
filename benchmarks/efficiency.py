"""Does a drafter give what its acceptance and its costs allow?

    python -m benchmarks.efficiency dflash [--draft-tokens 2 3 4 7] [--classes explain code]

For every class of prompts, measured in one process and interleaved: the plain decode rate, the
rate with drafts, and a run in which every round is synchronised between draft and verify. From
the last come the cost of a draft and of a verify pass of that width, in plain steps. Then

    ideal speed-up = (1 + accepted per round) ÷ (cost of a verify pass + cost of a draft)

and efficiency = measured ÷ ideal. What is missing to 1 is rollback, bookkeeping and waiting.
No drafter of the kinds eagle3, dspark and assistant was trained for a model at hand: there random
ones are told what is right, three, one, two and none of a draft in turn (`benchmarks.coached`).
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import coached
from benchmarks.harness import Timed, interleaved, ours, prompts, rate, rendered, smol, timed
from fixtures.zoo import Coached
from llm_specdec.backends import Result
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.session import Session

FOLDERS = {"mtp": "smollm2-mtp"}


class Synchronised(PhaseTimer):
    """Splits every round, so that phases are measured and nothing is shared out."""

    def begin_round(self, length: int) -> bool:
        super().begin_round(length)
        return True


@dataclass(frozen=True)
class Row:
    accepted: float  # a round
    verify: float  # plain steps, as is the next
    draft: float
    measured: float  # times the plain decode rate

    @property
    def ideal(self) -> float:
        return (1 + self.accepted) / (self.verify + self.draft)


def measured(
    sessions: Sequence[Session], k: int, ids: list[int], max_tokens: int, runs: int
) -> tuple[Row, bool]:
    """sessions: the plain one, one that drafts, and one that drafts with every round split."""
    plain, drafting, split_up = sessions
    engines = {
        "none": ours(plain, ignore_eos=True),
        "drafting": ours(drafting, k, ignore_eos=True),
        "synchronised": ours(split_up, k, timer=Synchronised, ignore_eos=True),
    }
    if isinstance(drafting.drafter, Coached) and isinstance(split_up.drafter, Coached):
        text = [*ids, *timed(engines["none"], ids, max_tokens).tokens]
        drafting.drafter.text = split_up.drafter.text = text
    found = interleaved(engines, ids, max_tokens, runs)
    step = 1 / rate(found["none"])
    split = [_split(run) for run in found["synchronised"]]
    draft, verify = (statistics.median(column) for column in zip(*split, strict=True))
    row = Row(
        accepted=_accepted(found["drafting"]),
        verify=verify / step,
        draft=draft / step,
        measured=rate(found["drafting"]) * step,
    )
    return row, found["none"][0].tokens == found["drafting"][0].tokens


def _split(run: Timed) -> tuple[float, float]:
    """Mean seconds of a draft and of a verify pass."""
    result = run.outcome
    assert isinstance(result, Result)
    phases, drafts = result.phases_ms, result.rounds - result.by_length[0]
    return phases["draft"] / 1000 / drafts, phases["verify"] / 1000 / result.rounds


def _accepted(runs: Sequence[Timed]) -> float:
    return sum(run.outcome.accepted for run in runs) / sum(run.outcome.rounds for run in runs)


def mean(rows: Sequence[Row]) -> Row:
    def of(name: str) -> float:
        return statistics.fmean(getattr(row, name) for row in rows)

    return Row(of("accepted"), of("verify"), of("draft"), of("measured"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["dflash", "mtp", "model", *coached.WRITERS])
    parser.add_argument("--draft-tokens", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--classes", nargs="+", default=["explain", "code", "prose"])
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each class")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        report(three_sessions(args.kind, Path(place)), args)


def three_sessions(kind: str, place: Path) -> list[Session]:
    """The plain one and two that draft."""
    if kind in coached.WRITERS:
        return coached.three_sessions(kind, place)
    folder = FOLDERS.get(kind, "smollm2")
    return [smol("none", folder), smol(kind, folder), smol(kind, folder)]


def report(sessions: Sequence[Session], args: argparse.Namespace) -> None:
    print(time.strftime("%Y-%m-%d"), args.kind, "costs in plain steps")
    print("class      k  accepted  verify  draft  ideal  measured  efficiency  text")
    for kind in args.classes:
        for k in args.draft_tokens:
            rows, equal = [], True
            for prompt in prompts([kind])[: args.prompts]:
                ids = rendered(sessions[0].tokenizer, prompt.text)
                row, same = measured(sessions, k, ids, args.max_tokens, args.runs)
                rows.append(row)
                equal = equal and same
            row = mean(rows)
            efficiency = statistics.fmean(r.measured / r.ideal for r in rows)
            print(
                f"{kind:<9} {k:>2}  {row.accepted:>8.2f}  {row.verify:>6.2f}  {row.draft:>5.2f}  "
                f"{row.ideal:>5.2f}  {row.measured:>8.2f}  {efficiency:>10.3f}  "
                f"{'equal' if equal else 'differs'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
