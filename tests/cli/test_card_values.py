"""`add` and `update` read cards; values count only once they were taken."""

import json

import pytest

from llm_specdec import hub
from llm_specdec.cli import update
from llm_specdec.errors import HubError
from llm_specdec.pairings import registry
from tests.support.checkpoints import write_model
from tests.support.command_line import run, specdec

CARD = """\
# My model

Recommended: temperature 0.6 and top_p 0.95. Do not use greedy decoding.
"""


@pytest.fixture
def target(tmp_path):
    folder = write_model(tmp_path / "target")
    (folder / "README.md").write_text(CARD)
    return folder


def effective(model_id="q"):
    found = json.loads(specdec("explain", model_id, "--json").stdout)
    return {name: (s["value"], s["layer"]) for name, s in found["settings"].items()}


def test_add_yes_takes_the_cards_values_and_says_which(target):
    result = specdec("add", "q", "--target", target, "--yes")
    assert result.exit_code == 0
    assert f"card: taken: temperature 0.6 ({target} README.md:3)" in result.stdout
    assert effective()["temperature"] == (0.6, "card")
    assert effective()["top_p"] == (0.95, "card")


def test_add_without_yes_and_terminal_takes_nothing_and_says_how(target):
    result = specdec("add", "q", "--target", target)
    assert "recommends temperature 0.6" in result.stdout
    assert "llm specdec update q --yes" in result.stdout
    assert effective()["temperature"] == (0.0, "built-in")
    assert "rejects it" in specdec("explain", "q").stderr


def test_a_contradiction_is_shown_and_left_open(target):
    (target / "generation_config.json").write_text('{"temperature": 0.9}')
    result = specdec("add", "q", "--target", target, "--yes")
    assert "card: left open: temperature: 0.6 or 0.9" in result.stdout
    assert effective()["temperature"] == (0.0, "built-in")
    assert effective()["top_p"] == (0.95, "card")
    said = "the card is of two minds about temperature: 0.6 or 0.9"
    assert said in specdec("explain", "q").stderr
    assert said not in specdec("explain", "q", "-o", "temperature", "0.6").stderr


def test_add_works_where_the_hub_does_not(target, monkeypatch):
    def unreachable(*arguments, **options):
        raise HubError("no network")

    monkeypatch.setattr(hub, "read_card", unreachable)
    result = specdec("add", "q", "--target", target)
    assert result.exit_code == 0
    assert "the card was not read: no network" in result.stderr
    assert registry.load().pairing("q").card == {}


def test_update_shows_a_newer_card_and_changes_nothing_until_told(target):
    specdec("add", "q", "--target", target, "--yes")
    (target / "README.md").write_text(CARD.replace("0.6", "0.7").replace("greedy", "beam"))
    before = registry.default_path().read_text()
    result = specdec("update", "q")
    assert result.stdout.splitlines() == ["temperature 0.6 → 0.7", "no longer rejects greedy"]
    assert registry.default_path().read_text() == before
    found = json.loads(specdec("update", "q", "--yes", "--json").stdout)
    assert found["taken"]
    assert found["changes"] == [
        {"mode": "default", "setting": "temperature", "old": 0.6, "new": 0.7}
    ]
    assert effective()["temperature"] == (0.7, "card")
    assert "says what is stored" in specdec("update", "q").stderr


def test_update_takes_values_that_add_did_not(target):
    specdec("add", "q", "--target", target)
    assert specdec("update", "q", "--yes").exit_code == 0
    assert effective()["temperature"] == (0.6, "card")


def test_setting_what_the_card_rejects_warns_unless_it_is_explained(target):
    specdec("add", "q", "--target", target, "--yes")
    assert "goes against the card" in specdec("set", "q", "temperature=0").stderr
    explained = specdec("set", "q", "temperature=0", "--deviation", "greedy is faster here")
    assert "goes against" not in explained.stderr
    assert "against the card: greedy is faster here" in specdec("show", "q").stdout
    assert "deviation: temperature 0 (pairing)" in specdec("explain", "q").stdout


def test_show_says_what_was_taken_and_from_where(target):
    specdec("add", "q", "--target", target, "--yes")
    assert f"card: taken: temperature 0.6 ({target} README.md:3)" in specdec("show", "q").stdout


def test_a_replaced_pairing_keeps_settings_and_gets_the_new_card(target, tmp_path):
    specdec("add", "q", "--target", target, "--yes")
    specdec("set", "q", "top_k=5")
    other = write_model(tmp_path / "other")
    assert specdec("add", "q", "--target", other, "--force").exit_code == 0
    assert effective()["top_k"] == (5, "pairing")
    assert effective()["temperature"] == (0.0, "built-in")


@pytest.mark.parametrize(("answer", "taken"), [("n", False), ("y", True)])
def test_update_shows_before_it_asks(target, monkeypatch, answer, taken):
    specdec("add", "q", "--target", target)
    monkeypatch.setattr(update, "on_terminal", lambda: True)
    result = run("specdec", "update", "q", stdin=f"{answer}\n")
    assert "temperature – → 0.6" in result.stdout
    assert "Take these values?" in result.stderr
    assert ("llm specdec explain q" in result.stderr) == taken
    assert (effective()["temperature"][0] == 0.6) == taken


def test_a_reason_for_what_the_card_is_silent_on_says_so(target):
    specdec("add", "q", "--target", target, "--yes")
    said = specdec("set", "q", "top_k=5", "temperature=1", "--deviation", "mine").stderr
    assert "the card says nothing of top_k" in said
    assert "says nothing of temperature" not in said
    assert "(shadows 0.6 of the card" in said
    shown = specdec("show", "q").stdout
    assert shown.count("(against the card: mine)") == shown.count("(deviation: mine)") == 1
