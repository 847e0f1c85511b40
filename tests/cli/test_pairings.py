import json
import os

import click
import llm
import pytest

from llm_specdec.cli import COMMANDS, pairings
from llm_specdec.cli import specdec as group
from llm_specdec.cli.output import table
from llm_specdec.pairings import registry
from tests.support.checkpoints import write_model
from tests.support.command_line import run, specdec, write_registry

TEXT = """\
# by hand
[pairings.q]
target = "/somewhere/on/this/machine/with/a/path/that/goes/on/and/on/target-model-4bit"
drafter = "someone/a-drafter-with-a-long-name-DFlash2"
kind = "dflash"
aliases = ["fast"]

[pairings.q.settings]
temperature = 0.6   # warm

[pairings.q.profiles.reason]
temperature = 1.0
top_p = 0.95
"""


@pytest.fixture(autouse=True)
def path():
    return write_registry(TEXT)


def usage(result, words):
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.error


@pytest.mark.parametrize(
    "name",
    ["add", "disable", "enable", "explain", "list", "profile", "remove", "set", "show", "update"],
)
def test_the_groups_help_is_the_commands_own(name):
    command = group.get_command(click.Context(group), name)
    assert command and command.short_help == COMMANDS[name][1]
    assert specdec(name, "--help").exit_code == 0


def test_list_fits_eighty_columns_and_marks_deviations(path):
    specdec("profile", "set", "q/reason", "top_p=0.9", "--deviation", "measured")
    specdec("disable", "q")
    lines = specdec("list").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "reason*" in lines[1]
    assert "[dflash]" in lines[1]


def test_list_and_show_as_json_say_the_same():
    (listed,) = json.loads(specdec("list", "--json").stdout)
    shown = json.loads(specdec("show", "q", "--json").stdout)
    assert listed == {**shown, "helper": False, "bench": None, "weight_bytes": None}
    assert shown["draft_tokens"] == "auto"
    assert list(shown["profiles"]) == ["reason"]


def test_list_goes_on_without_a_readable_bench_history(path):
    path.with_name("bench.db").write_text("no database " * 200)
    result = specdec("list")
    assert (result.exit_code, result.stderr.count("\n")) == (0, 1)
    assert "bench.db cannot be used as the bench history" in result.stderr
    assert "\nq " in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [("set", "q", "system=\udcff"), ("disable", "q", "--reason", "\udcff"), ("show", "\udcff")],
)
def test_bytes_that_are_no_utf8_are_one_line_and_change_nothing(path, arguments):
    before = path.read_bytes()
    result = specdec(*arguments)
    assert result.exit_code == 2
    assert path.read_bytes() == before


def test_list_names_a_broken_pairing_and_lists_the_others(path):
    path.write_text(TEXT + "\n[pairings.bad]\ntarget = 3\n")
    result = specdec("list")
    assert result.exit_code == 0
    assert f"{path.name}:16: pairings.bad.target" in result.stderr
    assert "\nq " in result.stdout


def test_an_empty_registry_lists_nothing(path):
    path.unlink()
    result = specdec("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(specdec("list", "--json").stdout) == []


def test_set_changes_a_value_and_keeps_the_rest_of_the_file(path):
    assert specdec("set", "fast", "temperature=0.7").exit_code == 0
    assert path.read_text() == TEXT.replace("0.6   # warm", "0.7   # warm")


def test_set_warns_of_each_profile_and_stored_option_that_shadows(path, llm_user):
    stored = {"q": {"temperature": "0.1"}, "q/reason": {"min_p": "0.2"}}
    (llm_user / "model_options.json").write_text(json.dumps(stored))
    said = specdec("set", "q", "temperature=0.7", "min_p=0.1", "top_k=5").stderr.splitlines()
    warnings = [line for line in said if line.startswith("warning: ")]
    assert [line.split(":")[1] for line in warnings] == [
        " temperature is shadowed in q by llm's stored option 0.1",
        " temperature is shadowed in q/reason, whose profile says 1",
        " min_p is shadowed in q/reason by llm's stored option 0.2",
    ]


def test_unset_takes_a_setting_away(path):
    assert specdec("set", "q", "--unset", "temperature").exit_code == 0
    assert registry.load().pairing("q").settings == {}
    usage(specdec("set", "q", "--unset", "temperature"), "is not set here")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "q"), "nothing to set"),
        (("set", "q", "temperature"), "write KEY=VALUE"),
        (("set", "q", "temperature=-1"), "a number from 0 to 5"),
        (("set", "q", "temprature=1"), "did you mean temperature"),
        (("set", "q/reason", "top_k=1"), "profile set"),
        (("set", "z", "top_k=1"), "no pairing 'z': there are q"),
        (("show", "z"), "no pairing 'z'"),
        (("remove", "z"), "no pairing 'z'"),
        (("enable", "z"), "no pairing 'z'"),
        (("disable", "z"), "no pairing 'z'"),
        (("explain", "q/z"), "no profile 'z': it has reason"),
        (("explain", "q", "-o", "top_p", "2"), "top_p must be"),
        (("profile", "set", "q", "top_k=1"), "write NAME/PROFILE"),
        (("profile", "set", "q/a b", "top_k=1"), "no profile name"),
        (("profile", "set", "q/a/b", "top_k=1"), "no profile name"),
        (("profile", "set", "z/a", "top_k=1"), "no pairing 'z'"),
        (("profile", "show", "q/z"), "no profile 'z'"),
        (("profile", "remove", "q/z"), "no profile 'z'"),
    ],
)
def test_wrong_names_and_values_are_one_usage_error_and_change_nothing(path, arguments, words):
    usage(specdec(*arguments), words)
    assert path.read_text() == TEXT


def test_remove_leaves_no_trace_of_the_pairing(path):
    assert specdec("remove", "q").exit_code == 0
    assert registry.load().pairings == {}
    assert "q" not in path.read_text().split("by hand")[1]


@pytest.fixture
def cached(path):
    """A prefix cache with two entries of q and one of another pairing."""
    folder = path.parent / "cache"
    for pairing, number in (("q", 1), ("q", 2), ("r", 3)):
        entry = folder / pairing / ("a" * 32) / f"{number}t-0000.safetensors"
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.write_bytes(b"x" * 1_000_000)
    return folder


def test_remove_takes_what_the_prefix_cache_keeps_of_it(path, cached):
    done = specdec("remove", "q")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == (
        "removed q with its profile reason, and its 2 entries in the prefix cache, 2 MB; "
        "its model files stay where they are\n"
    )
    assert [folder.name for folder in cached.iterdir()] == ["r"]
    assert registry.load().pairings == {}


def test_remove_without_a_prefix_cache_says_nothing_of_it(path):
    assert (
        specdec("remove", "q").stderr
        == "removed q with its profile reason; its model files stay where they are\n"
    )
    assert not (path.parent / "cache").exists()


def test_remove_of_one_whose_prefix_cache_cannot_be_read_says_so(path, cached, monkeypatch):
    def denied(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "scandir", denied)
    done = specdec("remove", "q")
    assert done.exit_code == 0
    said, removed = done.stderr.splitlines()
    assert said.startswith("warning: its prompts may still be in the prefix cache")
    assert f"Permission denied: '{cached}'" in said
    assert removed == "removed q with its profile reason; its model files stay where they are"
    assert registry.load().pairings == {}


def test_disable_and_enable_leave_the_file_as_it_was(path):
    specdec("disable", "q", "--reason", "waiting")
    assert registry.load().pairing("q").disabled_reason == "waiting"
    assert "it was off: waiting" in specdec("enable", "q").stderr
    assert registry.load().pairing("q").enabled
    assert path.read_text() == TEXT


def test_a_profile_is_there_at_once_and_a_new_value_drops_the_old_reason(path):
    specdec("profile", "set", "q/cold", "temperature=0", "top_p=0.5", "--deviation", "mine")
    specdec("profile", "set", "q/cold", "top_p=0.6")
    assert registry.load().find("q/cold")[0].profiles["cold"] == registry.Profile(
        {"temperature": 0.0, "top_p": 0.6}, {"temperature": "mine"}
    )
    assert "# warm" in path.read_text()
    shown = json.loads(specdec("profile", "show", "q/cold", "--json").stdout)
    assert shown["settings"] == {"temperature": 0.0, "top_p": 0.6}


def test_removing_the_last_profile_leaves_the_pairing(path):
    assert specdec("profile", "remove", "q/reason").exit_code == 0
    assert registry.load().pairing("q").profiles == {}
    assert "profiles" not in path.read_text()


def test_explain_gives_the_winner_and_what_it_shadows(path, llm_user):
    (llm_user / "model_options.json").write_text(json.dumps({"q/reason": {"temperature": "0.2"}}))
    found = json.loads(specdec("explain", "q/reason", "-o", "temperature", "0", "--json").stdout)
    assert found["id"] == "q/reason"
    temperature = found["settings"]["temperature"]
    assert (temperature["value"], temperature["layer"]) == (0.0, "-o")
    assert [(v["value"], v["layer"], v["source"]) for v in temperature["shadowed"]] == [
        (0.2, "stored option", "llm models options set q/reason temperature"),
        (1.0, "profile", "specdec.toml:12"),
        (0.6, "pairing", "specdec.toml:9"),
        (0.0, "built-in", "llm-specdec"),
    ]
    assert found["lane"]["kind"] == "dflash"
    assert found["lane"]["state"] == "drafting"


def test_explain_as_text_fits_eighty_columns_and_ends_with_the_lane():
    lines = specdec("explain", "q", "-o", "draft", "false").stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == "lane: none, off: draft is false (-o draft)"


def test_explain_of_a_disabled_pairing_says_why():
    specdec("disable", "q", "--reason", "gate missed")
    found = json.loads(specdec("explain", "q", "--json").stdout)
    assert found["lane"] == {
        "kind": "none", "state": "off", "reason": "pairing disabled: gate missed",
    }  # fmt: skip


def test_a_table_gives_up_the_beginning_of_its_widest_column():
    assert table([("a", "x" * 90 + "end")])[0] == "a  …" + "x" * 73 + "end"


def test_a_profile_is_in_the_next_call_of_llm_and_gone_once_removed():
    specdec("profile", "set", "q/cold", "temperature=0")
    assert "specdec: q/cold" in run("models").stdout
    specdec("profile", "remove", "q/cold")
    assert "specdec: q/cold" not in run("models").stdout


def test_a_broken_pairing_is_told_once(path):
    path.write_text(TEXT + "\n[pairings.bad]\ntarget = 3\n")
    assert specdec("list").stderr.count("pairings.bad") == 1
    assert run("models").stderr.count("pairings.bad") == 1


def changes(*arguments):
    """The lines that a command says of what it changed, warnings left out."""
    said = specdec(*arguments)
    assert (said.exit_code, said.stdout) == (0, "")
    return [line for line in said.stderr.splitlines() if not line.startswith("warning: ")]


def test_set_says_what_it_set_what_that_shadows_and_what_holds_once_unset():
    assert changes("set", "fast", "temperature=0.7", "top_k=5") == [
        "q: temperature 0.7 (default 0)",
        "q: top_k 5 (default 0)",
    ]
    assert changes("profile", "set", "q/reason", "temperature=0.9") == [
        "q/reason: temperature 0.9 (shadows 0.7 of the pairing, specdec.toml:9)",
        "q/reason is a model id: llm -m q/reason",
    ]
    assert changes("profile", "set", "q/reason", "--unset", "temperature")[0] == (
        "q/reason: temperature unset; 0.7 holds (the pairing, specdec.toml:9)"
    )
    assert changes("set", "q", "--unset", "top_k") == ["q: top_k unset; 0 holds (the default)"]
    assert changes("profile", "remove", "q/reason") == ["removed q/reason: top_p 0.95"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("set", "q", "top_k=5"),
            {
                "id": "q",
                "set": {"top_k": {"value": 5, "shadows": {
                    "value": 0, "layer": "built-in", "source": "llm-specdec"}}},
                "unset": {},
            },
        ),
        (
            ("profile", "set", "q/x", "top_k=5"),
            {
                "id": "q/x",
                "set": {"top_k": {"value": 5, "shadows": {
                    "value": 0, "layer": "built-in", "source": "llm-specdec"}}},
                "unset": {},
            },
        ),
        (
            ("profile", "remove", "q/reason"),
            {"removed": "q/reason", "settings": {"temperature": 1.0, "top_p": 0.95}, "left": []},
        ),
        (
            ("disable", "q", "--reason", "why not"),
            {"name": "q", "enabled": False, "was_enabled": True, "reason": "why not"},
        ),
        (
            ("enable", "q"),
            {"name": "q", "enabled": True, "was_enabled": True, "was_off": None},
        ),
        (
            ("remove", "q"),
            {
                "removed": "q",
                "profiles": ["reason"],
                "cache_entries": 2,
                "cache_bytes": 2_000_000,
                "left": [],
            },
        ),
    ],
)  # fmt: skip
def test_whatever_changes_something_says_so_as_json(cached, arguments, said):
    assert json.loads(specdec(*arguments, "--json").stdout) == said


def test_a_person_is_asked_before_a_pairing_goes(path, cached, monkeypatch):
    monkeypatch.setattr(pairings, "on_terminal", lambda: True)
    asked = run("specdec", "remove", "q", stdin="n\n")
    assert asked.exit_code == 1
    assert "Remove q with its profile reason and what the prefix cache holds of it?" in asked.stderr
    assert path.read_text() == TEXT and (cached / "q").is_dir()
    assert run("specdec", "remove", "q", stdin="y\n").exit_code == 0
    path.write_text(TEXT)
    assert run("specdec", "remove", "q", "--yes").exit_code == 0
    assert registry.load().pairings == {}


def test_remove_names_what_llm_still_has_of_it():
    llm.set_default_model("q/reason")
    assert changes("remove", "q")[1:] == [
        "llm's default model is q/reason: llm models default NAME",
    ]


def test_a_reason_where_no_card_speaks_is_kept_and_is_not_called_against_it():
    said = specdec("set", "q", "top_k=5", "--deviation", "mine").stderr
    assert "no card is stored for q" in said
    shown = specdec("show", "q").stdout
    assert "(deviation: mine)" in shown and "against the card" not in shown


TEMPLATE = "{% if enable_thinking %}<think>{% endif %}{{ messages[0].content }}"


@pytest.mark.parametrize("owner", [("set", "q"), ("profile", "set", "q/p")])
def test_a_thinking_word_that_the_template_does_not_know_is_refused_when_set(path, tmp_path, owner):
    target = write_model(tmp_path / "target")
    (target / "chat_template.jinja").write_text(TEMPLATE)
    path.write_text(f'[pairings.q]\ntarget = "{target}"\n')
    before = path.read_text()
    usage(specdec(*owner, "thinking=maybe"), "knows no thinking effort 'maybe': set on or off")
    assert path.read_text() == before
    assert specdec(*owner, "thinking=off").exit_code == 0


def test_a_thinking_word_is_taken_where_no_template_can_be_asked():
    assert specdec("set", "q", "thinking=low").exit_code == 0
