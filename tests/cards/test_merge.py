"""Contradictions and effective values follow from the findings alone."""

import json
from pathlib import Path

import pytest
import yaml

from llm_specdec.cards import Card, Disagreement, Finding, Forbidden, Range
from llm_specdec.cards.merge import disagreements, effective

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "fixtures/cases/cards.jsonl").read_text().splitlines()
]


def lineage(case):
    bases = {}
    for repo in [case["target"]]:
        bases[repo] = _bases(case["repos"][repo])
    for repo in bases.copy():
        queue = list(bases[repo])
        while queue:
            name = queue.pop(0)
            if name in case["repos"] and name not in bases:
                bases[name] = _bases(case["repos"][name])
                queue += bases[name]
    return bases


def _bases(files):
    front = yaml.safe_load(files["README.md"].split("---")[1]) or {}
    named = front.get("base_model") or []
    return [named] if isinstance(named, str) else named


def expected_card(case):
    expected = case["expected"]
    doubt = [
        Disagreement("base_model", None, tuple(d["values"]))
        for d in expected["disagreements"]
        if d["setting"] == "base_model"
    ]
    return Card(
        target=case["target"],
        lineage=lineage(case),
        recommended=[Finding(**entry) for entry in expected["recommended"]],
        ranges=[Range(**entry) for entry in expected["ranges"]],
        forbidden=[Forbidden(**entry) for entry in expected["forbidden"]],
        disagreements=doubt,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_effective_values_follow_from_the_findings(case):
    assert effective(expected_card(case)) == case["expected"]["effective"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_contradictions_follow_from_the_findings(case):
    expected = {
        (d["setting"], d["mode"], frozenset(d["values"]))
        for d in case["expected"]["disagreements"]
        if d["setting"] != "base_model"
    }
    found = {(d.setting, d.mode, frozenset(d.values)) for d in disagreements(expected_card(case))}
    assert found == expected


def test_a_card_survives_json():
    card = expected_card(CASES[0])
    card.effective = effective(card)
    card.disagreements = disagreements(card)
    assert Card.from_dict(json.loads(json.dumps(card.to_dict()))) == card
