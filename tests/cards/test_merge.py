"""Contradictions and effective values follow from the findings alone."""

import json
from pathlib import Path

import pydantic
import pytest
import yaml

from llm_specdec.cards import Card, Disagreement, Finding, Forbidden, Range, read, stored
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
    assert pydantic.TypeAdapter(Card).validate_json(json.dumps(card.to_dict())) == card


BASE = "We recommend temperature 0.6 and top_p 0.9.\n"


@pytest.mark.parametrize(
    ("own", "config", "taken"),
    [
        ("# X\n", None, {"temperature": 0.6, "top_p": 0.9}),
        ("# X\n\nTemperature 1.1 also works.\n", None, {"top_p": 0.9}),
        ("# X\n\nTemperature 1.1 also works.\n", {"temperature": 0.7}, {"top_p": 0.9}),
        ("# X\n\nOnly a low temperature is advised.\n", None, {"top_p": 0.9}),
    ],
)
def test_nothing_is_taken_over_a_line_that_a_person_must_read(own, config, taken):
    front = "---\nbase_model: a/base\n---\n"
    texts = {
        "a/x": {"README.md": front + own, "generation_config.json": config},
        "a/base": {"README.md": BASE, "generation_config.json": None},
    }
    card = read(texts, "a/x")
    assert card.effective["default"] == taken
    kept, _ = stored.load(stored.dump(card, taken=True))
    assert kept.effective["default"] == taken


def test_no_system_prompt_is_inherited_over_a_line_that_a_person_must_read():
    front = "---\nbase_model: a/base\n---\n"
    base = "The recommended system prompt is `You answer in rhymes.`\n"
    texts = {
        "a/x": {
            "README.md": f"{front}# X\n\nThink twice about a system prompt, please.\n",
            "generation_config.json": None,
        },
        "a/base": {"README.md": base, "generation_config.json": None},
    }
    assert read(texts, "a/x").system_default is None
    assert read(texts, "a/base").system_default == "You answer in rhymes."
