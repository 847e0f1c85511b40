"""A bench as one self-contained page: charts by matplotlib as inline SVG, in the page's colours.

Needs the extra `report` (matplotlib, jinja2), imported here only.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from llm_specdec.bench import table

Row = Mapping[str, Any]

# Drawn in these, then handed to the page's style sheet, which knows light from dark and paper.
INK, LINE = "#010203", "#040506"
COLOURS = ("#8a8f98", "#3b82c4", "#e08a1e", "#2e9e78", "#a678c8", "#d1605e", "#5bb5c9", "#b59b3a")
MARKERS = "osD^v"
PHASES = dict(
    zip(("restore", "prefill", "draft", "verify", "replay", "commit", "other"),
        (COLOURS[6], COLOURS[1], COLOURS[2], COLOURS[3], COLOURS[5], COLOURS[4], COLOURS[0]),
        strict=True)
)  # fmt: skip
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: searchable, in the page's font
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def html(bench: Row) -> str:
    """The page. Shapes: `bench` as `results.assemble` gives it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True
    )
    charts = [
        (heading, note, svg)
        for heading, note, draw in _charts(bench)
        if (svg := _chart(bench, heading, draw))
    ]
    return environment.get_template("report.html.j2").render(bench=bench, t=table, charts=charts)


def _charts(bench: Row) -> Sequence[tuple[str, str, Callable[[Axes, Row], bool]]]:
    rates: list[tuple[str, str, Callable[[Axes, Row], bool]]] = [
        ("Decode rate", "Tokens a second after the first token; a dot a run, a bar the median.",
         lambda axes, case: _dots(axes, case, "decode_tps", "tok/s")),
        ("End-to-end rate", "Tokens a second of the whole wall time, prefill included.",
         lambda axes, case: _dots(axes, case, "end_to_end_tps", "tok/s")),
        ("Time to first token", "Cold runs, and warm ones where the prefix cache was used.",
         _ttft),
        ("Where the time goes", "Phases as a share of wall time, over all runs.", _phases),
        ("Acceptance by position", "How often a draft token at a position was accepted.",
         _positions),
    ]  # fmt: skip
    return rates


def _chart(bench: Row, name: str, draw: Callable[[Axes, Row], bool]) -> str | None:
    """One panel a case, side by side, as inline SVG; None where no case has anything to show."""
    cases = bench["cases"]
    rows = max(len(case["configs"]) for case in cases)
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(9, 1.1 + 0.3 * max(rows, 3)), layout="constrained")
        panels = figure.subplots(1, len(cases), squeeze=False, sharex=True, sharey=True)[0]
        shown = [draw(panel, case) for panel, case in zip(panels, cases, strict=True)]
        if not any(shown):
            return None
        for panel, case in zip(panels, cases, strict=True):
            panel.set_title(table.heading(case), fontsize=9)
        _legend(figure, panels[0])
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _inline(out.getvalue(), name)


def _dots(axes: Axes, case: Row, rate: str, unit: str) -> bool:
    names = [table.named(row["config"]) for row in case["configs"]]
    shown = False
    for place, row in enumerate(case["configs"]):
        if not row[rate]:
            continue
        shown = True
        runs = [run for run in row[rate]["runs"] if run is not None]
        colour = _colours(case)[row["config"]]
        axes.barh(place, row[rate]["median"], height=0.5, color=colour, alpha=0.35)
        axes.plot(runs, [place] * len(runs), "o", color=colour, markersize=5)
    _lanes(axes, names, unit)
    return shown


def _ttft(axes: Axes, case: Row) -> bool:
    warm = any("cold_ttft_ms" in row for row in case["configs"])
    kinds = [("cold", "cold_ttft_ms" if warm else "ttft_ms", COLOURS[1])]
    kinds += [("warm", "ttft_ms", COLOURS[2])] if warm else []
    shown = False
    for offset, (label, key, colour) in enumerate(kinds):
        for place, row in enumerate(case["configs"]):
            if not row.get(key):
                continue
            height = place + 0.25 * offset
            runs = [run / 1000 for run in row[key]["runs"] if run is not None]
            axes.barh(height, row[key]["median"] / 1000, height=0.22, color=colour, alpha=0.35,
                      label=None if shown and place else label)  # fmt: skip
            axes.plot(runs, [height] * len(runs), "o", color=colour, markersize=5)
            shown = True
    _lanes(axes, [table.named(row["config"]) for row in case["configs"]], "s")
    return shown


def _phases(axes: Axes, case: Row) -> bool:
    shown = False
    for place, row in enumerate(case["configs"]):
        left = 0.0
        for name, colour in PHASES.items():
            share = 100 * row["phases_share"].get(name, 0.0)
            label = name if place == 0 else None
            axes.barh(place, share, left=left, height=0.6, color=colour, label=label)
            left += share
        shown = shown or left > 0
    _lanes(axes, [table.named(row["config"]) for row in case["configs"]], "% of wall")
    return shown


def _positions(axes: Axes, case: Row) -> bool:
    shown = False
    for place, row in enumerate(case["configs"]):
        shares = [100 * share for share in row["accepted_by_position"]]
        if not shares:
            continue
        shown = True
        colour = _colours(case)[row["config"]]
        axes.plot(range(1, len(shares) + 1), shares, color=colour, label=row["config"],
                  marker=MARKERS[place % len(MARKERS)], markersize=4)  # fmt: skip
    axes.set_xlabel("position in the draft")
    axes.set_ylabel("% accepted")
    axes.set_ylim(0, 100)
    longest = max(len(row["accepted_by_position"]) for row in case["configs"])
    axes.set_xlim(0.5, max(axes.get_xlim()[1], longest + 0.5))  # the panels share it
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return shown


def _colours(case: Row) -> dict[str, str]:
    """configuration → colour: draft lengths of one drafter share theirs, the baseline is grey."""
    drafters = list(dict.fromkeys(row["config"].partition(":")[0] for row in case["configs"]))
    return {
        row["config"]: COLOURS[drafters.index(row["config"].partition(":")[0]) % len(COLOURS)]
        for row in case["configs"]
    }


def _lanes(axes: Axes, names: Sequence[str], unit: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(unit)
    axes.set_xlim(left=0)


def _legend(figure: Figure, panel: Axes) -> None:
    handles, labels = panel.get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(8, len(labels)))


def _inline(svg: str, name: str) -> str:
    """The svg element alone, its colours left to the page."""
    svg = svg[svg.index("<svg") :]
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    return svg.replace(INK, "var(--ink)").replace(LINE, "var(--line)")
