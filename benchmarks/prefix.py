"""How long until the first token, cold, from memory and from disk?

    python -m benchmarks.prefix [--runs 3] [--tokens 2150]

TTFT counts from the moment weights are in memory. Cold and hot runs are interleaved in one
process; each run from disk is a process of its own. Then: restore time by size, lookup time by
number of entries, and what an entry takes on disk beside the states it holds.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx

from benchmarks.harness import plan_of, rendered, smol
from llm_specdec.backends import Event, Request, Result, local
from llm_specdec.bench.prompts import built_in
from llm_specdec.engine.session import Session
from llm_specdec.engine.states import Entry
from llm_specdec.prefix_cache.disk import DiskTier
from llm_specdec.prefix_cache.folder import Cap, Folder
from llm_specdec.prefix_cache.keys import Key, key_of
from llm_specdec.prefix_cache.lookup import PrefixCache, Tier
from llm_specdec.prefix_cache.ram import RamTier

LANES = ("none", "lookup", "model", "mtp", "dflash")
FOLDERS = {"mtp": "smollm2-mtp"}
ENTRIES = (10, 1000)


@dataclass(frozen=True)
class First:
    """Seconds to the first token and in restore, and the tokens that were not read."""

    ttft: float
    restore: float
    cached: int


def session_for(lane: str) -> Session:
    return smol(lane, FOLDERS.get(lane, "smollm2"))


def prompt_for(loaded: Session, tokens: int) -> list[int]:
    text = built_in("prose", tokens, lambda text: len(rendered(loaded.tokenizer, text)))
    return rendered(loaded.tokenizer, text)


def disk_tier(folder: Path) -> DiskTier:
    def warn(text: str) -> None:
        sys.exit(text)

    return DiskTier(Folder(folder, cap=lambda held, free: Cap(1 << 40, "all")), "bench", warn)


def first_token(
    loaded: Session, prompt: list[int], prefix_cache: PrefixCache | None = None
) -> First:
    run = _decoded(loaded, prompt, prefix_cache, max_tokens=1)
    result = next(event for event in run if isinstance(event, Result))
    ttft, restore = result.ttft_ms / 1000, result.phases_ms["restore"] / 1000
    return First(ttft, restore, result.cached_tokens)


def _decoded(
    loaded: Session, prompt: list[int], prefix_cache: PrefixCache | None, max_tokens: int
) -> Iterator[Event]:
    """A run; iterated to its end, what it leaves is kept, on disk too."""
    plan = replace(plan_of(loaded, draft_tokens=1), keeps_on_disk=True)
    request = Request(tokens=prompt, max_tokens=max_tokens, ignore_eos=True)
    return local.decode(local.Loaded(loaded, prefix_cache=prefix_cache), plan, request)


def from_disk(lane: str, folder: Path, tokens: int) -> First:
    """In a process of its own."""
    command = [sys.executable, "-m", "benchmarks.prefix", "--child", lane, str(folder)]
    found = subprocess.run(
        [*command, "--tokens", str(tokens)], stdout=subprocess.PIPE, check=True, text=True
    )
    return First(**json.loads(found.stdout))


def child(lane: str, folder: Path, tokens: int) -> None:
    loaded = session_for(lane)
    prompt, key = prompt_for(loaded, tokens), key_of(loaded, None)
    found = first_token(loaded, prompt, PrefixCache(key, RamTier(1 << 34), disk_tier(folder)))
    print(json.dumps(found.__dict__))


def by_lane(folder: Path, runs: int, tokens: int) -> Entry:
    """Print TTFT for every lane; returns the states of the last one."""
    print(f"lane      cold s    RAM s  ÷ cold   disk s  ÷ cold   cached of {tokens}   states")
    for lane in LANES:
        loaded = session_for(lane)
        prompt, key = prompt_for(loaded, tokens), key_of(loaded, None)
        hot = PrefixCache(key, RamTier(1 << 34), disk_tier(folder))
        list(_decoded(loaded, prompt, hot, max_tokens=8))  # also warms up the device
        found = hot.longest(prompt)
        assert found is not None
        entry = found.entry
        cold, warm, disk = [], [], []
        for _ in range(runs):
            cold.append(first_token(loaded, prompt))
            warm.append(first_token(loaded, prompt, hot))
            disk.append(from_disk(lane, folder, tokens))
        a, b, c = (statistics.median(one.ttft for one in firsts) for firsts in (cold, warm, disk))
        assert all(one.cached == len(prompt) - 1 for one in (*warm, *disk))
        print(
            f"{lane:8} {a:7.3f} {b:8.3f} {b / a:7.3f} {c:8.3f} {c / a:7.3f}"
            f" {warm[0].cached:14} {entry.nbytes / 1e6:11.1f} MB"
        )
    return entry


def sized(entry: Entry, positions: int) -> Entry:
    """A beginning of an entry that can be cut."""
    cut = [mx.contiguous(array[..., :positions, :]) for array in (*entry.target, *entry.drafter)]
    mx.eval(cut)
    n = len(entry.target)
    return Entry(entry.tokens[: positions + 1], cut[:n], cut[n:], exact=False)


def by_size(entry: Entry, runs: int) -> None:
    """Print restore time from disk, in this process, by size; and bytes on disk."""
    print("\npositions  states MB  restore from disk ms  ms a MB  file ÷ states")
    step = entry.length // 8
    for positions in (step, 2 * step, 4 * step, 8 * step):
        part = sized(entry, positions)
        with tempfile.TemporaryDirectory() as name:
            tier, key = disk_tier(Path(name)), Key({})
            tier.put(key, part)
            seconds = median_seconds(lambda: tier.longest(key, part.tokens), runs)  # noqa: B023
            size = sum(path.stat().st_size for path in Path(name).rglob("*.safetensors"))
        print(
            f"{positions:9} {part.nbytes / 1e6:10.1f} {1e3 * seconds:21.1f}"
            f" {1e9 * seconds / part.nbytes:8.2f} {size / part.nbytes:14.4f}"
        )


def by_entries(tokens: int, runs: int) -> None:
    """Print the time of a lookup that finds nothing better than a short prefix, by number of
    entries: all of them begin alike, as conversations under one system prompt do."""
    print("\nlookup, ms    " + "".join(f"{count:>9} entries" for count in ENTRIES) + "   ratio")
    with tempfile.TemporaryDirectory() as name:
        tiers: dict[str, Callable[[int], Tier]] = {
            "RAM": lambda count: RamTier(1 << 34),
            "disk": lambda count: disk_tier(Path(name) / str(count)),
        }
        for title, make in tiers.items():
            found = []
            for count in ENTRIES:
                tier, key, draw = make(count), Key({}), random.Random(count)
                alike = [draw.randrange(49152) for _ in range(tokens // 8)]
                for _ in range(count):
                    own = [draw.randrange(49152) for _ in range(tokens - len(alike))]
                    tier.put(key, Entry((*alike, *own), [mx.zeros((1, 1))], [], exact=False))
                prompt = [*alike, *(draw.randrange(49152) for _ in range(tokens - len(alike)))]
                found.append(median_seconds(lambda: tier.longest(key, prompt), 5 * runs))  # noqa: B023
            few, many = found
            print(f"{title:12} {1e3 * few:10.2f} {1e3 * many:16.2f} {many / few:14.2f}")


def median_seconds(call: Callable[[], object], runs: int) -> float:
    seconds = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])  # the first warms up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=2150)
    parser.add_argument("--child", nargs=2, metavar=("LANE", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        lane, folder = args.child
        child(lane, Path(folder), args.tokens)
        return
    print(time.strftime("%Y-%m-%d"), f"SmolLM2-135M-Instruct, {args.tokens} tokens")
    with tempfile.TemporaryDirectory() as name:
        entry = by_lane(Path(name), args.runs, args.tokens)
    by_size(entry, args.runs)
    by_entries(args.tokens, args.runs)


if __name__ == "__main__":
    main()
