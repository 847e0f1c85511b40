"""The cards of fixtures/cases and our own, scored by the contract: never wrong, never silent.

`python -m tests.cards.test_cases [FILE.jsonl]` prints the scores and every difference.
"""

import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from llm_specdec.cards import read
from tests.support.card_cases import CASES, HANDED, OWN, load

PLACES = {
    "recommended": ("setting", "value", "mode", "repo", "file", "line"),
    "ranges": ("setting", "low", "high", "mode", "repo", "line"),
    "forbidden": ("setting", "repo", "line"),
    "required": ("setting", "value", "repo", "line"),
}


@cache
def card_of(case_id):
    case = next(case for case in CASES if case["id"] == case_id)
    return read(case["repos"], case["target"])


def entries(data, name):
    return {tuple(entry[key] for key in PLACES[name]) for entry in data[name]}


def place(name, entry):
    return entry[PLACES[name].index("repo")], entry[PLACES[name].index("line")]


def shown(card):
    return {(line.repo, line.line) for line in card.lines if line.outcome == "shown"}


def wrong(case):
    """What was found and is not so."""
    card, expected = card_of(case["id"]), case["expected"]
    data = card.to_dict()
    elsewhere = {  # said twice, the first line shown: then the second counts
        (name, tuple(v for key, v in zip(PLACES[name], e, strict=True) if key != "line"))
        for name in PLACES
        for e in entries(expected, name)
        if place(name, e) in shown(card)
    }
    found = [
        (name, e)
        for name in PLACES
        for e in entries(data, name) - entries(expected, name)
        if (name, tuple(v for key, v in zip(PLACES[name], e, strict=True) if key != "line"))
        not in elsewhere
    ]
    if card.system_default not in (None, expected["system_default"]):
        found.append(("system_default", card.system_default))
    return found


def missed(case):
    """(name, entry, whether its line is shown) of what was not found."""
    card, expected = card_of(case["id"]), case["expected"]
    data = card.to_dict()
    lost = [(name, e) for name in PLACES for e in entries(expected, name) - entries(data, name)]
    found = [(name, e, place(name, e) in shown(card)) for name, e in lost if name != "required"]
    found += [("required", e, True) for name, e in lost if name == "required"]
    if expected["system_default"] and not card.system_default:
        about = any("system" in line.about for line in card.lines if line.outcome == "shown")
        found.append(("system_default", expected["system_default"], about))
    return found


def inventions(case):
    """Values that may be taken and should not be."""
    expected = case["expected"]["effective"]
    return [
        (mode, setting, value)
        for mode, values in card_of(case["id"]).effective.items()
        for setting, value in values.items()
        if expected.get(mode, {}).get(setting) != value
    ]


def contradictions(data):
    return {(d["setting"], d["mode"], frozenset(d["values"])) for d in data["disagreements"]}


def noise(case):
    """Shown lines that give no value, range or rejection."""
    expected = case["expected"]
    said = {place(name, e) for name in PLACES for e in entries(expected, name)}
    return [
        line
        for line in card_of(case["id"]).lines
        if line.outcome == "shown" and (line.repo, line.line) not in said
    ]


def shares(path):
    """name → (entries taken, entries in all)."""
    all_of: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for case in load(path):
        for name in PLACES:
            all_of[name] += len(entries(case["expected"], name))
        all_of["system_default"] += case["expected"]["system_default"] is not None
        lost.update(name for name, _, _ in missed(case))
    return {name: (all_of[name] - lost[name], all_of[name]) for name in all_of}


NAMED = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])


@NAMED
def test_nothing_wrong_is_taken(case):
    assert wrong(case) == []


@NAMED
def test_nothing_is_dropped(case):
    assert [entry for entry in missed(case) if not entry[2]] == []


@NAMED
def test_only_certain_values_may_be_taken(case):
    assert inventions(case) == []


@NAMED
def test_every_contradiction_is_reported(case):
    found, expected = (
        contradictions(card_of(case["id"]).to_dict()),
        contradictions(case["expected"]),
    )
    assert found <= expected
    opened = {about for settings in card_of(case["id"]).open.values() for about in settings}
    assert {setting for setting, _, _ in expected - found} <= opened


@NAMED
def test_named_traps_are_avoided(case):
    values = {(f.setting, f.value) for f in card_of(case["id"]).recommended}
    wanted = {(f["setting"], f["value"]) for f in case["expected"]["recommended"]}
    traps = {(t["setting"], t["value"]) for t in case["expected"].get("not", [])}
    assert not (values & traps) - wanted


@pytest.mark.parametrize(("path", "least"), [(HANDED, 0.9), (OWN, 0.8)], ids=["handed", "own"])
def test_most_is_taken_rather_than_shown(path, least):
    taken = sum(taken for taken, _ in shares(path).values())
    assert taken / sum(every for _, every in shares(path).values()) >= least


def test_an_unreadable_file_is_named():
    found = card_of("config-trailing-comma")
    assert [(entry.repo, entry.file) for entry in found.unreadable] == [
        ("kelp/parley-355m", "generation_config.json")
    ]
    assert "line 9" in found.unreadable[0].reason


def report(path):
    total: Counter[str] = Counter()
    for case in load(path):
        name = case["id"]
        for entry in wrong(case):
            print(f"{name}: WRONG {entry}")
        for mode, setting, value in inventions(case):
            print(f"{name}: WRONG effective {mode} {setting} {value}")
        for kind, entry, is_shown in missed(case):
            rules = {
                li.rule
                for li in card_of(name).lines
                if kind in PLACES and place(kind, entry) == (li.repo, li.line)
            }
            print(f"{name}: {'shown' if is_shown else 'DROPPED'} {kind} {entry} {rules}")
        found, expected = contradictions(card_of(name).to_dict()), contradictions(case["expected"])
        for d in found - expected:
            print(f"{name}: WRONG disagreement {d}")
        for line in noise(case):
            print(f"{name}: noise {line.line} {line.rule}: {line.text}")
        total["wrong"] += len(wrong(case)) + len(inventions(case))
        total["dropped"] += sum(not s for _, _, s in missed(case))
        total["noise"] += len(noise(case))
    print(dict(total), {name: f"{a}/{b}" for name, (a, b) in shares(path).items()})


if __name__ == "__main__":
    report(Path(sys.argv[1]) if len(sys.argv) > 1 else HANDED)
