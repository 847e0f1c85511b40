"""The README's picture: decode rates by drafter, over that of the target alone.

    python -m benchmarks.chart --measure      measures, then writes docs/images/lanes.json
    python -m benchmarks.chart                draws docs/images/lanes.svg from it

All drafters and the target alone take turns of a few tokens in one process, so that a busy spell
of the machine hits all alike. Every drafter runs at adaptive draft length, at temperature 0. A bar
is the median; a dot is a run, over the run of the target alone that it took turns with.
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.efficiency import FOLDERS
from benchmarks.harness import Engine, interleaved, ours, prompts, rendered, smol

Ratios = Mapping[str, Sequence[float]]  # lane → decode rate of each run ÷ the target's own

IMAGES = Path(__file__).parents[1] / "docs" / "images"
FIGURES, PICTURE = IMAGES / "lanes.json", IMAGES / "lanes.svg"
LANES = {
    "none": "target alone",
    "model": "small model",
    "dflash": "DFlash 2",
    "mtp": "prediction head",
    "lookup": "prompt lookup",
}
TEXTS = {"explain": "explaining", "code": "writing code", "copy": "copying a passage"}
INK, GREY, BLUE = "#24292f", "#8a8f98", "#3b82c4"
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "lanes",  # the same figures make the same file
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.major.size": 0,
}


def measure(count: int, runs: int, max_tokens: int) -> dict[str, Ratios]:
    """Text → its lanes' ratios, over `count` prompts and `runs` runs of each."""
    tokenizer, engines = smol().tokenizer, {lane: _engine(lane) for lane in LANES}
    found: dict[str, Ratios] = {}
    for kind in TEXTS:
        ratios: dict[str, list[float]] = {lane: [] for lane in LANES}
        for prompt in prompts([kind])[:count]:
            ids = rendered(tokenizer, prompt.text)
            for lane, timed in interleaved(engines, ids, max_tokens, runs).items():
                ratios[lane] += [run.decode_tps for run in timed]
            print(kind, prompt.id, flush=True)
        plain = ratios["none"]
        found[kind] = {
            lane: [round(a / b, 3) for a, b in zip(rates, plain, strict=True)]
            for lane, rates in ratios.items()
        }
    return found


def _engine(lane: str) -> Engine:
    session = smol(lane, FOLDERS.get(lane, "smollm2"))
    if lane == "none":
        return ours(session)
    return ours(session, "auto", costs=session.costs(dict(session.measure())))


def draw(texts: Mapping[str, Ratios]) -> Figure:
    figure = Figure(figsize=(10, 2.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(texts), sharex=True, sharey=True)
    highest = max(max(runs) for ratios in texts.values() for runs in ratios.values())
    for axes, (kind, ratios) in zip(panels, texts.items(), strict=True):
        _panel(axes, ratios)
        axes.set_xlim(0, 1.15 * highest)  # room for the figures beside the bars
        axes.set_title(TEXTS[kind], fontsize=10)
    figure.supxlabel("decode rate ÷ that of the target alone", fontsize=10)
    return figure


def _panel(axes: Axes, ratios: Ratios) -> None:
    for place, lane in enumerate(LANES):
        runs = ratios[lane]
        gain = statistics.median(runs)
        axes.barh(place, gain, height=0.62, color=GREY if lane == "none" else BLUE, alpha=0.45)
        axes.plot(runs, [place] * len(runs), "o", color=INK, markersize=2.5)
        axes.text(max(gain, *runs) + 0.06, place, f"{gain:.2f}×", va="center")
    axes.axvline(1, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(LANES)), list(LANES.values()))
    axes.set_ylim(len(LANES) - 0.5, -0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode rates by drafter, as a picture.")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--prompts", type=int, default=2, help="of each kind of text")
    parser.add_argument("--runs", type=int, default=3, help="of each prompt")
    parser.add_argument("--max-tokens", type=int, default=96)
    args = parser.parse_args()
    if args.measure:
        texts = measure(args.prompts, args.runs, args.max_tokens)
        about = {"date": time.strftime("%Y-%m-%d"), "max_tokens": args.max_tokens}
        FIGURES.write_text(json.dumps({**about, "texts": texts}, indent=1) + "\n")
    with mpl.rc_context(STYLE):
        found = json.loads(FIGURES.read_text("utf-8"))
        draw(found["texts"]).savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
