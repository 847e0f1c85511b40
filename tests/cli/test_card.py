"""`llm specdec card` shows each value with the line that it stands in."""

import json

import pytest

from llm_specdec import cards
from llm_specdec.cli.card import describe
from tests.support.card_cases import CASES
from tests.support.command_line import specdec

CARD = """---
license: mit
---

# Wren 1B

We recommend `temperature=0.6` in thinking mode; greedy decoding must not be used.
A repetition penalty between 1.0 and 1.1 is fine.
"""


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "wren"
    folder.mkdir()
    (folder / "README.md").write_text(CARD)
    (folder / "generation_config.json").write_text('{"top_p": 0.9, "temperature": 1.0}')
    return folder


def run(*arguments):
    return specdec("card", *arguments)


def test_values_stand_below_their_lines(model):
    result = run(model)
    assert result.exit_code == 0
    assert "README.md:7  We recommend temperature=0.6 in thinking mode" in result.stdout
    assert "[thinking] temperature 0.6" in result.stdout
    assert "no greedy" in result.stdout
    assert "top_p 0.9" in result.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"temperature": NaN, "top_p": 0.9}', "NaN and Infinity are no JSON"),
        ("[" * 100_000, "no usable JSON"),
        ('{"temperature": 1e999}', None),
    ],
)
def test_no_figure_of_the_output_is_endless(model, text, said):
    (model / "generation_config.json").write_text(text)
    data = json.loads(run(model, "--json").stdout, parse_constant=pytest.fail)
    assert [f["value"] for f in data["recommended"]] == [0.6]
    assert [said in unreadable["reason"] for unreadable in data["unreadable"]] == [True] * bool(
        said
    )


def test_json_carries_everything(model):
    data = json.loads(run(model, "--json").stdout)
    assert {
        "target", "recommended", "ranges", "forbidden", "required", "system_default",
        "disagreements", "effective", "unreadable", "candidates",
    } <= set(data)  # fmt: skip
    assert data["disagreements"] == [{"setting": "temperature", "mode": None, "values": [0.6, 1.0]}]
    assert data["effective"] == {
        "default": {"top_p": 0.9},
        "thinking": {"temperature": 0.6, "top_p": 0.9},
    }


def test_an_unclear_card_ends_in_its_lines(tmp_path):
    (tmp_path / "README.md").write_text("# X\n\nTemperature 0.9 also works.\n")
    result = run(tmp_path)
    assert "nothing sure: read it yourself, here are the lines" in result.stdout
    assert "README.md:3  Temperature 0.9 also works." in result.stdout


def test_a_clear_card_shows_what_it_did_not_take(model):
    with (model / "README.md").open("a") as file:
        file.write("\nWe recommend a low temperature if you must.\n")
    assert (
        "Read these lines yourself (not taken)\n"
        "  README.md:8  A repetition penalty between 1.0 and 1.1 is fine.\n"
        "  README.md:10  We recommend a low temperature if you must.\n"
    ) in run(model).stdout


def test_why_gives_every_line_and_its_rule(tmp_path):
    (tmp_path / "README.md").write_text(
        "# X\n\nWe recommend temperature 0.6.\n\nAll scores were measured at temperature 0.2.\n\n"
        "Keep top-k out of harm's way.\n"
    )
    assert run(tmp_path, "--why").stdout.splitlines()[1:-1] == [
        "  taken: name and figure",
        "      README.md:3  We recommend temperature 0.6.",
        "  set aside: benchmark",
        "      README.md:5  All scores were measured at temperature 0.2.",
        "  shown: advice in words",
        "      README.md:7  Keep top-k out of harm's way.",
    ]
    lines = json.loads(run(tmp_path, "--json").stdout)["lines"]
    assert [(line["line"], line["outcome"]) for line in lines] == [
        (3, "taken"), (5, "set aside"), (7, "shown"),
    ]  # fmt: skip


def test_a_folder_without_a_card_is_no_error(tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "nothing sure: no line names a setting with a figure" in result.stdout


def test_a_missing_folder_is_one_line():
    result = run("./gone")
    assert result.exit_code == 1
    assert result.error.startswith("Error: no folder ./gone")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_no_line_is_wider_than_80_columns(case):
    lines = list(describe(cards.read(case["repos"], case["target"])))
    assert [line for line in lines if len(line) > 80] == []
