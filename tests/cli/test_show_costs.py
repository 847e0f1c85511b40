"""`llm specdec show NAME --costs`: the measured costs as a table or as JSON."""

import json

import pytest

from llm_specdec.backends import local
from llm_specdec.backends.local import costs
from llm_specdec.engine.costs import Costs
from tests.support.command_line import specdec, write_registry

MEASURED = Costs(
    (128, 2048),
    ({1: 0.040, 2: 0.035, 3: 0.038}, {1: 0.050, 2: 0.053}),
    {"model": ({1: 0.004}, {1: 0.0045})},
)


@pytest.fixture
def measured(monkeypatch):
    write_registry(
        '[pairings.small]\ntarget = "."\ndrafter = "."\nkind = "model"\n'
        '[pairings.plain]\ntarget = "."\n'
    )
    asked = []

    def load(plan):
        yield from ()

    def found(anew):
        asked.append(anew)
        return MEASURED

    monkeypatch.setattr(costs, "stored", lambda session, kv_bits, first: found(False))
    monkeypatch.setattr(costs, "measured", lambda *args, **options: found(True))
    monkeypatch.setattr(local, "admit", lambda plan, tokens: None)
    monkeypatch.setattr(local, "load", load)
    return asked


def test_costs_are_a_table_of_both_contexts(measured):
    shown = specdec("show", "small", "--costs")
    assert shown.exit_code == 0
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["verify", "2", "35.0", "53.0"] in rows
    assert ["verify", "3", "38.0", "–"] in rows  # at the long context fewer are measured
    assert ["draft", "(model)", "1", "4.0", "4.5"] in rows
    assert measured == [False]


def test_recalibrate_measures_anew(measured):
    assert specdec("show", "small", "--recalibrate").exit_code == 0
    assert measured == [True]


def test_costs_as_json_read_back(measured):
    shown = specdec("show", "small", "--costs", "--json")
    assert Costs.from_json(json.loads(shown.stdout)) == MEASURED


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ((), "its drafter is off (the pairing has no drafter)"),
        (("disable", "small"), "its drafter is off (pairing disabled: switched off by hand)"),
        (("set", "small", "draft_tokens=3"), "llm specdec set small draft_tokens=auto"),
    ],
)
def test_a_pairing_that_does_not_adapt_has_none_and_says_why(measured, before, why):
    if before:
        specdec(*before)
    shown = specdec("show", "small" if before else "plain", "--costs")
    assert (shown.exit_code, measured) == (2, [])
    assert "no costs to show" in shown.error and why in shown.error
