"""The cards of fixtures/cases, scored field by field: nothing wrong, little missed.

`python -m tests.cards.test_cases [FILE.jsonl]` prints the scores and every difference.
"""

import json
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from llm_specdec.cards import read

CASES_FILE = Path(__file__).parents[2] / "fixtures/cases/cards.jsonl"
MINE_FILE = Path(__file__).parent / "cards.jsonl"
PLACES = {
    "recommended": ("setting", "value", "mode", "repo", "file", "line"),
    "ranges": ("setting", "low", "high", "mode", "repo", "line"),
    "forbidden": ("setting", "repo", "line"),
    "required": ("setting", "value", "repo", "line"),
}


def load(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def outcome(expected):
    """An expected or found outcome as sets that can be compared, field by field."""
    sets = {
        name: {tuple(entry[key] for key in keys) for entry in expected[name]}
        for name, keys in PLACES.items()
    }
    sets["disagreements"] = {
        (entry["setting"], entry["mode"], frozenset(entry["values"]))
        for entry in expected["disagreements"]
    }
    sets["system_default"] = {expected["system_default"]} - {None}
    return sets


@cache
def card_of(case_id):
    case = next(case for case in CASES if case["id"] == case_id)
    return read(case["repos"], case["target"])


def differences(case):
    """(field, "missed" or "wrong", entry) for each difference, and counts of what was right."""
    found = card_of(case["id"])
    want, have = outcome(case["expected"]), outcome(found.to_dict())
    right = Counter({name: len(want[name] & have[name]) for name in want})
    wrong = [
        (name, word, entry)
        for name in want
        for word, entries in (
            ("missed", want[name] - have[name]),
            ("wrong", have[name] - want[name]),
        )
        for entry in sorted(entries, key=str)
    ]
    return wrong, right, found


CASES = load(CASES_FILE) + load(MINE_FILE)
NAMED = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])


@NAMED
def test_nothing_wrong_is_found(case):
    wrong, _, _ = differences(case)
    assert [entry for entry in wrong if entry[1] == "wrong"] == []


@NAMED
def test_effective_values_are_exact(case):
    assert card_of(case["id"]).effective == case["expected"]["effective"]


@NAMED
def test_every_contradiction_is_reported(case):
    wrong, _, _ = differences(case)
    assert [entry for entry in wrong if entry[0] == "disagreements"] == []


@NAMED
def test_named_traps_are_avoided(case):
    found = card_of(case["id"])
    values = {(f.setting, f.value) for f in found.recommended}
    wanted = {(f["setting"], f["value"]) for f in case["expected"]["recommended"]}
    traps = {(t["setting"], t["value"]) for t in case["expected"].get("not", [])}
    assert not (values & traps) - wanted


@pytest.mark.parametrize("path", [CASES_FILE, MINE_FILE], ids=["handed", "own"])
def test_at_least_95_percent_are_found(path):
    missed: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for case in load(path):
        wrong, good, _ = differences(case)
        missed.update(name for name, word, _ in wrong if word == "missed")
        right += good
    for name in right:
        assert right[name] / (right[name] + missed[name]) >= 0.95, name


def test_an_unreadable_file_is_named():
    case = next(case for case in CASES if case["id"] == "config-trailing-comma")
    found = card_of(case["id"])
    assert [(entry.repo, entry.file) for entry in found.unreadable] == [
        ("kelp/parley-355m", "generation_config.json")
    ]
    assert "line 9" in found.unreadable[0].reason


def report(path):
    total: Counter[str] = Counter()
    bad: Counter[tuple[str, str]] = Counter()
    for case in load(path):
        wrong, right, found = differences(case)
        total += right
        for name, word, entry in wrong:
            bad[name, word] += 1
            print(f"{case['id']}: {word} {name} {entry}")
        if found.effective != case["expected"]["effective"]:
            print(f"{case['id']}: effective {found.effective}")
            print(f"{'':{len(case['id'])}}   expected {case['expected']['effective']}")
    for name in (*PLACES, "disagreements", "system_default"):
        right, missed, wrong = total[name], bad[name, "missed"], bad[name, "wrong"]
        precision = right / (right + wrong) if right + wrong else 1.0
        recall = right / (right + missed) if right + missed else 1.0
        print(f"{name:15} precision {precision:.3f}  recall {recall:.3f}  ({right} right)")


if __name__ == "__main__":
    report(Path(sys.argv[1]) if len(sys.argv) > 1 else CASES_FILE)
