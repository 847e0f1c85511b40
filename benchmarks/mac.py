"""Everything that was never measured on a Mac, in one run of about ten minutes.

    llm specdec add NAME --target … --drafter …
    python -m benchmarks.mac NAME [--minutes 10]

It reads the pairing's files, writes nothing and asks no network. What it prints is a report in
Markdown that can be sent as it is: the machine, whether the text is exact by the rule of
`llm specdec bench`, what rounds cost by width, decode rates by lane, memory. A part that the
time does not reach says so. It runs on any machine; close other programs first.
"""

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Iterator

import mlx.core as mx

from benchmarks import harness
from benchmarks.harness import Engine, Timed, interleaved, ours, prompts, rate, rendered
from fixtures import parity
from llm_specdec.backends import local, plan
from llm_specdec.backends.notices import shown
from llm_specdec.bench import machine
from llm_specdec.engine.costs import Costs
from llm_specdec.engine.hardware import device
from llm_specdec.engine.request import Round
from llm_specdec.engine.session import Session, Weights
from llm_specdec.pairings import registry
from llm_specdec.settings import resolve

TOKENS = 64
LENGTHS = (1, 2, 4)  # beside auto
LONG = 1024  # tokens of the answer whose memory is watched

Lines = Iterator[str]


def of_machine(session: Session) -> Lines:
    yield f"- {device.name()}: {machine.identity(machine.machine())}"
    yield "- " + ", ".join(f"{name} {found}" for name, found in machine.versions().items())
    now = machine.state()
    yield f"- load {now['load_1min']}, power {now['power']}, pressure {now['memory_pressure']}"
    yield f"- logits in {session.dtype}"
    yield f"- lane {session.weights.kind}, weights {device.memory_in_use() / 1e9:.2f} GB"


def of_parity(session: Session, alone: Session) -> Lines:
    yield "| prompt | tokens | drafted | accepted | verdict |"
    yield "|---|---|---|---|---|"
    for prompt in chosen():
        ids = rendered(session.tokenizer, prompt.text)
        plain = harness.completed(ours(alone), ids, TOKENS)
        run = harness.completed(ours(session, LENGTHS[-1]), ids, TOKENS)
        rounds = [Round(*passed) for passed in run.passes]
        expected = list(plain.completion_ids)
        found = parity.difference(session.target, ids, expected, run.completion_ids, rounds)
        verdict = "identical"
        if found:
            kind = "tie by width" if found.exact else "BROKEN"
            verdict = f"{kind} at {found.position}, gap {found.gap:.3f}"
        yield (
            f"| {prompt.id} | {len(run.completion_ids)} | {run.drafted} | {run.accepted} "
            f"| {verdict} |"
        )


def of_costs(costs: Costs) -> Lines:
    names = {"verify": costs.verify, **{f"draft {kind}": c for kind, c in costs.draft.items()}}
    yield "| ms | " + " | ".join(f"at {context} tokens" for context in costs.contexts) + " |"
    yield "|---|" + "---|" * len(costs.contexts)
    for name, curves in names.items():
        for x in sorted(curves[0]):
            cells = [f"{1000 * curve[x]:.2f}" if x in curve else "–" for curve in curves]
            yield f"| {name} {x} | " + " | ".join(cells) + " |"


def of_rates(session: Session, alone: Session, costs: Costs) -> Lines:
    engines = {"target alone": ours(alone), "auto": ours(session, "auto", costs)}
    engines |= {str(length): ours(session, length) for length in LENGTHS}
    yield "| prompt | " + " | ".join(f"{name}, tok/s (×)" for name in engines) + " |"
    yield "|---|" + "---|" * len(engines)
    gains: dict[str, list[float]] = {name: [] for name in engines}
    for prompt in chosen():
        ids = rendered(session.tokenizer, prompt.text)
        rates = {name: rate(runs) for name, runs in taken(engines, ids).items()}
        for name, found in rates.items():
            gains[name].append(found / rates["target alone"])
        cells = [f"{found:.1f} ({found / rates['target alone']:.2f})" for found in rates.values()]
        yield f"| {prompt.id} | " + " | ".join(cells) + " |"
    medians = [f"({statistics.median(found):.2f})" for found in gains.values()]
    yield "| median | " + " | ".join(medians) + " |"


def taken(engines: dict[str, Engine], ids: list[int]) -> dict[str, list[Timed]]:
    """One run of each, one after the other: a drafter serves one run at a time."""
    return {
        name: interleaved({name: engine}, ids, TOKENS, 1)[name] for name, engine in engines.items()
    }


def of_memory(session: Session) -> Lines:
    """While a long answer is written: what is held, and what mlx keeps of freed buffers."""
    yield "| tokens | in use, GB | kept for reuse, GB |"
    yield "|---|---|---|"
    ids = rendered(session.tokenizer, chosen()[0].text)
    mx.clear_cache()
    stream = ours(session, LENGTHS[0], ignore_eos=True)(ids, LONG)
    written = shown_at = 0
    for event in stream:
        written += len(getattr(event, "ids", ()))
        if written >= shown_at:
            shown_at += LONG // 4
            held, kept = mx.get_active_memory() / 1e9, mx.get_cache_memory() / 1e9
            yield f"| {written} | {held:.3f} | {kept:.3f} |"
    yield f"\nPeak {device.peak_memory() / 1e9:.3f} GB"


def chosen() -> list[harness.Prompt]:
    return [prompt for kind in ("code", "explain", "copy") for prompt in prompts([kind])[:2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairing", help="a registered pairing, its drafter switched on")
    parser.add_argument("--minutes", type=float, default=10)
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    pairing = registry.load().pairings[args.pairing]
    ready = plan(pairing, None, resolve(pairing, options={"temperature": 0}))
    local.admit(ready, LONG)
    session = shown(local.load(ready), tell=lambda text: None)
    alone = Session(Weights(session.weights.target), session.target, None)

    @functools.cache
    def costs() -> Costs:
        found = session.costs(dict(session.measure()))
        assert found
        return found

    parts: dict[str, Callable[[], Lines]] = {
        "Machine": lambda: of_machine(session),
        "Exactness": lambda: of_parity(session, alone),
        "What rounds cost": lambda: of_costs(costs()),
        "Rates": lambda: of_rates(session, alone, costs()),
        "Memory": lambda: of_memory(session),
    }
    print(f"# {session.weights.target.name}, {session.weights.kind}")
    with device.wired():
        for title, lines in parts.items():
            print(f"\n## {title}\n")
            if time.monotonic() > end:
                print("not reached in time")
                continue
            for line in lines():
                print(line, flush=True)
                if time.monotonic() > end:
                    print("\ncut short: the time is over")
                    break


if __name__ == "__main__":
    main()
