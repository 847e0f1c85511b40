"""Text made to be slow: what a card costs to read grows with its length only, up to a cap."""

import time

import pytest

from llm_specdec.cards import figures, read, reader, rules
from llm_specdec.cards.reader import MOST, read_text
from llm_specdec.cards.words import words

SIZE = 1_000_000
PIECES = [
    "a", "<!--", "<del>", "~~", "temperature ", "temperature 0.6, ", "use temperature 0.6\n",
    "- top_p 0.9\n", "use top_k 40 and x\n\n", "> ", "- ", "[", "(", "[a](", "![a](", "`", "*",
    "_a", "1", "1 ", "0.6.", "1,000,", "<a ", "<table>", "<tr><td>temperature</td><td>0</td></tr>",
    "<details>\n", "# a\n", "**Use:**\n\n", "Use:\n\n", "温度建议设置为", "设置为", "temperature? ",
    "converted from ", "quant of a ", "a/", "do not use ", "no top_p ", "[a]: <", "&amp;", "\\",
    "system prompt: `", "thinking on ", "---\n", "\n", " ", "{", '{"temperature": ', "'a ", "/*",
]  # fmt: skip


def card(text):
    return read({"a/b": {"README.md": text, "generation_config.json": None}}, "a/b")


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    card("# X\n\nWe recommend temperature 0.6.\n")


@pytest.mark.slow
@pytest.mark.parametrize("around", ["", "## Recommended settings\n\n", "```\n"])
@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_of_anything_is_read_in_time(piece, around):
    start = time.process_time()
    card(around + piece * (SIZE // len(piece)))
    assert time.process_time() - start < 10  # linear: under 2 s; quadratic: minutes


def test_a_run_of_marks_is_looked_at_once():
    start = time.process_time()
    card("We recommend temperature 0.6 " + "*" * 100_000 + " x")
    assert time.process_time() - start < 10


def test_a_gap_after_a_figure_is_looked_at_once():
    text = "7" + " " * 50_000 + "y"  # where settings and their values were blanked
    start = time.process_time()
    (figure,) = figures.NUMBERS.finditer(text)
    assert not figures._counts(text, figure)
    assert time.process_time() - start < 2


def test_only_so_many_statements_are_judged_and_the_rest_is_shown(monkeypatch):
    judged = []

    def judge(sentence, context):
        judged.append(sentence)
        return rules.judge(sentence, context)

    monkeypatch.setattr(reader, "judge", judge)
    said = read_text("Use temperature 0.6.\n\n" * (MOST + 50), "a/b")
    assert len(judged) == MOST
    assert [line.outcome for line in said.lines].count("shown") == 50


def test_a_very_long_card_says_that_it_was_cut():
    found = card("word " * SIZE)
    assert found.notes == ["a/b: the card is very long: only its beginning was read"]


def test_an_unclosed_comment_hides_nothing():
    found = card("We recommend temperature 0.6.\n\n<!-- never closed\n\nUse top_p 0.9.\n")
    assert [(line.line, line.outcome) for line in found.lines] == [(1, "taken"), (5, "shown")]


def test_words_are_loaded_when_a_card_is_read_and_not_before():
    import subprocess
    import sys

    code = "import sys, llm_specdec.cards; print('llm_specdec.cards.words' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "False"
    assert "benchmark" in words("cues.measured")
