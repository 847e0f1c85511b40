"""JSON schemas with drafting on: is the JSON whole, is it the undrafted one, what does it cost?

    python -m benchmarks.schemas [random] [real] [--schemas 200]

random  random schemas × lanes on a tiny model: each text parses and validates, drafted texts
        equal the undrafted one; acceptance and rate beside the same lane without a schema
real    extraction with SmolLM2, every lane, constrained and not; what masks take of the time

Both without a name. Exits 1 where anything is broken.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from benchmarks import harness
from benchmarks.parity import session
from fixtures import schema_runs
from llm_specdec.backends import Request, Result, Tokens, local
from llm_specdec.constraints import masks

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "city": {"type": "string"},
        "likes": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
    },
    "required": ["name", "age", "city", "likes"],
}
TEXTS = (
    "Extract the person: Ann Lee is 31 years old, lives in Oslo and likes skiing and jazz.",
    "Extract the person: Bob Ray, 27, from Leeds, likes bread, tea and long walks.",
    "Extract the person: In Kyoto lives Yuki Mori, who is 64. She likes gardens.",
    "Extract the person: Mr. Carl Otto Weiß (82) of Bonn likes trains, chess and quiet.",
)


@dataclass
class Sum:
    """Figures of one lane, over all its runs."""

    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    masks: float = 0.0
    broken: list[str] = field(default_factory=list)

    def add(self, tokens: int, drafted: int, accepted: int, seconds: float) -> None:
        self.tokens += tokens
        self.drafted += drafted
        self.accepted += accepted
        self.seconds += seconds

    @property
    def acceptance(self) -> str:
        return f"{self.accepted / self.drafted:.3f}" if self.drafted else "–"

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class Clock:
    """Adds up the host's time for masks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._row = masks.row

    def __call__(self, held: Sequence[Any], drafts: Sequence[int]) -> Any:
        start = time.perf_counter()
        found = self._row(held, drafts)
        self.seconds += time.perf_counter() - start
        return found


def random_schemas(args: argparse.Namespace) -> bool:
    rng = random.Random(args.seed)
    held = {lane: Sum() for lane in schema_runs.LANES}
    free = {lane: Sum() for lane in schema_runs.LANES}
    steered = 0
    for n in range(args.schemas):
        schema = schema_runs.random_schema(rng)
        most = schema_runs.room(schema, rng.choice((12, 24, 48, 96)))
        plain: list[int] = []
        for lane in schema_runs.LANES:
            for sums, asked in ((held, schema), (free, None)):
                clock, start = Clock(), time.perf_counter()
                with patch.object(masks, "row", clock):
                    written = schema_runs.write(lane, asked, most)
                seconds, stats = time.perf_counter() - start, written.stats
                sums[lane].add(len(written.tokens), stats.drafted, stats.accepted, seconds)
                sums[lane].masks += clock.seconds
                if asked is None:
                    continue
                try:
                    written.check(schema)
                except Exception as error:
                    held[lane].broken.append(f"{json.dumps(schema)}: {error!r}")
                plain = plain or written.tokens
                if written.tokens != plain:
                    held[lane].broken.append(f"{json.dumps(schema)}: not the undrafted text")
                steered += (
                    lane == "none" and written.constraint is not None and written.constraint.steered
                )
        if sys.stderr.isatty():
            print(f"\r{n + 1}/{args.schemas}", end="", file=sys.stderr)
    print(f"{args.schemas} random schemas, {steered} of them where max_tokens ruled tokens out\n")
    heading()
    for lane in schema_runs.LANES:
        line(lane, held[lane], free[lane])
    return sound(held)


def real(args: argparse.Namespace) -> bool:
    held = {lane: Sum() for lane in schema_runs.LANES}
    free = {lane: Sum() for lane in schema_runs.LANES}
    texts: dict[str, list[int]] = {}
    heading()
    for lane in schema_runs.LANES:
        loaded = session(lane)
        plan = harness.plan_of(loaded, draft_tokens=args.draft_tokens)
        loaded.token_table  # noqa: B018  read once a process, not in a run
        for n, text in enumerate(TEXTS[: args.texts]):
            prompt = harness.rendered(loaded.tokenizer, text)
            for sums in (held, free)[:: 1 if n % 2 else -1]:
                schema, clock = PERSON if sums is held else None, Clock()
                request = Request(tokens=prompt, max_tokens=args.tokens, schema=schema)
                events = local.decode(local.Loaded(loaded), plan, request)
                next(event for event in events if isinstance(event, Tokens))  # the prompt is read
                start = time.perf_counter()
                with patch.object(masks, "row", clock):
                    run = next(event for event in events if isinstance(event, Result))
                seconds, ids = time.perf_counter() - start, list(run.completion_ids)
                sums[lane].add(len(ids), run.drafted, run.accepted, seconds)
                sums[lane].masks += clock.seconds
                if run.constraint and not run.constraint["complete"]:
                    held[lane].broken.append(f"{text}: not whole")
                if run.constraint and texts.setdefault(text, ids) != ids:
                    held[lane].broken.append(f"{text}: not the undrafted text")
        line(lane, held[lane], free[lane])
    return sound(held)


def heading() -> None:
    print(f"{'':8} {'with a schema':^42}   {'without':^18}")
    print(
        f"{'lane':8} {'tokens':>6} {'acceptance':>10} {'tok/s':>8} {'masks':>7} {'broken':>6}"
        f"   {'acceptance':>10} {'tok/s':>8}"
    )


def line(lane: str, held: Sum, free: Sum) -> None:
    print(
        f"{lane:8} {held.tokens:6} {held.acceptance:>10} {held.rate:8.1f} "
        f"{held.masks / held.seconds:7.1%} {len(held.broken):6}"
        f"   {free.acceptance:>10} {free.rate:8.1f}",
        flush=True,
    )


def sound(held: dict[str, Sum]) -> bool:
    broken = [f"{lane}: {what}" for lane, sums in held.items() for what in sums.broken]
    print(*broken, sep="\n")
    return not broken


PARTS = {"random": random_schemas, "real": real}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="part")
    parser.add_argument("--schemas", type=int, default=200, help="for `random`")
    parser.add_argument("--seed", type=int, default=0, help="for `random`")
    parser.add_argument("--texts", type=int, default=len(TEXTS), help="for `real`")
    parser.add_argument("--tokens", type=int, default=80, help="for `real`")
    parser.add_argument("--draft-tokens", type=int, default=4, help="for `real`")
    args = parser.parse_args()
    results = []
    for name in args.parts or PARTS:
        print(f"== {name}")
        results.append(PARTS[name](args))
        print()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
