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
