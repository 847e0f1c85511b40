import json
from datetime import date, timedelta

import pytest

from llm_specdec.adapter.reminders import switched_off_today
from llm_specdec.console import notices
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing
from tests.support.command_line import run_process, specdec


@pytest.fixture
def days():
    path = registry.default_path().with_name("said-off.json")
    path.parent.mkdir()
    return path


def said(capsys, name="q", reason="switched off by hand"):
    """What a new process says."""
    notices.warn.cache_clear()
    switched_off_today(Pairing(name, "t", enabled=False, disabled_reason=reason))
    return capsys.readouterr().err


def test_it_is_said_once_a_day_and_pairing(days, capsys):
    assert said(capsys) == (
        "Warning: q is switched off, its target answers alone: switched off by hand; "
        "llm specdec enable q may change that (said once a day)\n"
    )
    assert said(capsys) == ""
    assert said(capsys, "other") != ""
    assert said(capsys) == ""
    yesterday = (date.today() - timedelta(1)).isoformat()
    days.write_text(json.dumps({"q": yesterday, "gone": yesterday}))
    assert said(capsys) != ""
    assert json.loads(days.read_text()) == {"q": date.today().isoformat()}


def test_what_a_gate_switched_off_is_benched_again(days, capsys):
    assert "llm specdec bench q may change that" in said(capsys, reason="vetoed by bench 3: -8%")


@pytest.mark.parametrize("text", ["no json", "[1]", '{"q": 3}', '{"q": ["x"]}'])
def test_a_file_of_days_that_is_not_ours_is_replaced(days, capsys, text):
    days.write_text(text)
    assert said(capsys) != ""
    assert json.loads(days.read_text()) == {"q": date.today().isoformat()}


def test_a_folder_that_cannot_be_written_only_says_it_again(days, capsys):
    days.mkdir()
    assert said(capsys) == said(capsys) != ""


@pytest.mark.real
def test_an_answer_of_a_switched_off_pairing_says_so_and_logs_say_why(pairings):
    specdec("disable", "look", "--reason", "too slow here")
    short = ("-o", "max_tokens", "2")
    first = run_process("-m", "look", "hello", *short)
    assert first.exit_code == 0 and "look is switched off" in first.stderr
    assert "too slow here" in first.stderr
    assert run_process("-m", "look", "hello", *short).stderr == ""
    assert "off: pairing disabled: too slow here" in specdec("logs", "-n", "1").stdout


def test_doctor_says_what_is_off_and_why(llm_user):
    days = registry.default_path()
    days.parent.mkdir()
    days.write_text('[pairings.q]\ntarget = "/nowhere"\n')
    specdec("disable", "q", "--reason", "too slow here")
    found = json.loads(specdec("doctor", "--json").stdout)["findings"]
    (off,) = [finding for finding in found if "switched off" in finding["what"]]
    assert off == {
        "level": "warning",
        "what": "q is switched off: too slow here",
        "why": "its target answers alone",
        "fix": "llm specdec enable q",
    }
