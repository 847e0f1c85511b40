"""What a terminal shows until an answer begins."""

import pytest

from tests.support.terminal import left_on_screen, on_terminal

pytestmark = pytest.mark.real


def test_nothing_of_it_is_left_once_the_answer_is_there(pairings, llm_user):
    (llm_user / "specdec" / "said-of-keep").touch()  # what a slow machine would be told
    code, said = on_terminal(["-m", "llm", "-m", "small", "hello " * 600, "-o", "max_tokens", "2"])
    assert code == 0
    assert "loading small …" in said or "reading the prompt …" in said
    assert left_on_screen(said) == []


def test_a_command_shows_what_it_waits_for_after_its_answer(pairings, llm_user):
    (llm_user / "specdec" / "said-of-keep").touch()
    code, said = on_terminal(["-m", "llm", "-m", "small", "hello", "-o", "max_tokens", "64"])
    assert code == 0
    assert "measuring what drafts cost on this machine …" in said
    assert left_on_screen(said) == []
    assert (llm_user / "specdec" / "costs.json").exists()
