"""A kind that is one folder and a line in the table goes everywhere, without any other edit."""

import json

import pytest

from tests.support import chains, echo_kind
from tests.support.command_line import run, specdec

QUESTION = "Say it again. " * 40  # a token a byte: long enough to be kept


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A target that says one word for ever, and an echo."""
    echo_kind.register(monkeypatch)
    target = chains.write(tmp_path / "target", [["go", " na", " na"]], chains.template({}, "go"))
    return target, echo_kind.write(tmp_path / "echo")


@pytest.fixture
def pairing(folders):
    target, echo = folders
    done = specdec("add", "toy", "--target", target, "--drafter", echo, "--draft-tokens", 3)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def printed(*arguments):
    done = specdec(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_recognised_and_inspected(folders):
    target, echo = folders
    data = printed("inspect", target, echo)
    assert (data["drafter"]["kind"], data["drafter"]["echo"]) == ("echo-files", 4)
    assert (data["drafter"]["match"], data["lane"]["kind"]) == (True, "echo")
    text = specdec("inspect", echo).stdout
    assert "kind          an echo\n" in text and "use           never alone: " in text


def test_it_is_refused_with_its_own_figures(folders, tmp_path):
    target, _ = folders
    wrong = echo_kind.write(tmp_path / "wrong", longest=9)
    done = specdec("add", "toy", "--target", target, "--drafter", wrong)
    assert "length: the drafter has 9, the target hears 8" in done.error


def test_it_is_added_listed_and_looked_after(pairing):
    assert "lane echo (it fits the target), draft tokens 3" in pairing
    (listed,) = printed("list")
    assert (listed["kind"], listed["draft_tokens"]) == ("echo", 3)
    assert listed["weight_bytes"] > 0
    assert "echo" in specdec("show", "toy").stdout
    found = printed("doctor")
    assert "toy: files are whole and fit each other" in json.dumps(found)


def test_it_drafts_leaves_a_receipt_and_starts_warm(pairing, folders):
    answers = [run("-m", "toy", QUESTION, "-o", "max_tokens", "24") for _ in range(2)]
    assert [done.stdout.strip() for done in answers] == [" ".join(["na"] * 24)] * 2
    cold, warm = (logged["specdec"] for logged in printed("logs", "-n", "2"))
    assert cold["lane"] == {
        "kind": "echo",
        "state": "drafting",
        "reason": f"drafter {folders[1]}, draft tokens 3",
    }
    assert cold["draft"]["acceptance_rate"] == warm["draft"]["acceptance_rate"] == 1
    assert cold["draft"]["by_source"].keys() == {"echo"}
    assert cold["tokens"]["cached"] == 0
    assert warm["tokens"]["cached"] > len(QUESTION)


def test_its_costs_are_measured_and_a_long_match_may_replace_it(pairing):
    assert specdec("set", "toy", "draft_tokens=auto").exit_code == 0
    costs = printed("show", "toy", "--costs")
    assert set(costs["draft"]) == {"echo"}
    assert max(map(int, costs["draft"]["echo"][0])) == 4


def test_it_is_benched(pairing):
    arguments = ("--context", 400, "--class", "prose", "--runs", 1, "--max-tokens", 12)
    done = specdec("bench", "toy", *arguments, "--json")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    (case,) = found["cases"]
    *_, echo = case["configs"]
    assert echo["parity"]["status"] == "identical"
    assert found["conditions"]["models"]["drafter"]["architecture"] == "echo"
