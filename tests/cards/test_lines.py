"""One line of a card each, in many languages: taken for what it means, or shown."""

import json
from pathlib import Path

import pytest

from llm_specdec.cards.reader import read_text

HERE = Path(__file__).parent
HANDED, OWN = (
    [json.loads(line) for line in path.read_text().splitlines()]
    for path in (HERE.parents[1] / "fixtures/cases/card-lines.jsonl", HERE / "lines.jsonl")
)


def read(line):
    """What is taken from a line under a heading that recommends, and whether it is shown."""
    said = read_text(f"# X\n\n## Recommended settings\n\n{line}\n", "a/x-7b")
    found: set[tuple[object, ...]] = {("recommended", f.setting, f.value) for f in said.recommended}
    found |= {("ranges", r.setting, r.low, r.high) for r in said.ranges}
    found |= {("forbidden", f.setting) for f in said.forbidden}
    found |= {("system_default", said.system_default)} if said.system_default else set()
    return found, any(line.outcome == "shown" for line in said.lines)


def meaning(case):
    means = case["means"]
    told = {(kind, *entry) for kind in ("recommended", "ranges") for entry in means.get(kind, [])}
    told |= {("forbidden", setting) for setting in means.get("forbidden", [])}
    system = means.get("system_default")
    return told | ({("system_default", system)} if system else set())


@pytest.mark.parametrize("case", HANDED + OWN, ids=lambda case: case["line"])
def test_a_line_is_taken_for_what_it_means_or_shown(case):
    found, shown = read(case["line"])
    assert found <= meaning(case)
    assert shown or found == meaning(case)


def test_most_lines_are_taken_rather_than_shown():
    advice = [case for case in OWN if meaning(case)]
    taken = [case for case in advice if read(case["line"])[0] == meaning(case)]
    assert len(taken) >= 0.9 * len(advice)


def test_few_lines_without_advice_are_shown():
    rest = [case["line"] for case in OWN if not meaning(case)]
    assert sum(read(line)[1] for line in rest) <= 0.2 * len(rest)
