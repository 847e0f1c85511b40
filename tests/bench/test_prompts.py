import json

import pytest

from llm_specdec.bench import prompts
from llm_specdec.errors import UsageError


def count(text):
    """By a tokenizer of about three tokens a word, with a template around the text."""
    return 2 + len(text.encode()[::2])


@pytest.mark.parametrize("text", prompts.CLASSES)
@pytest.mark.parametrize("tokens", [300, 2150, 9000])
def test_a_built_in_prompt_has_the_tokens_asked_for(text, tokens):
    found = prompts.built_in(text, tokens, count)
    assert tokens - 20 <= count(found) <= tokens
    assert found == prompts.built_in(text, tokens, count)


@pytest.mark.parametrize("text", prompts.CLASSES)
def test_material_does_not_repeat_itself_at_length(text):
    said = []

    def listen(content):
        said.append(content)
        return count(content)

    prompts.built_in(text, 40_000, listen)
    paragraphs = [line for line in max(said, key=len).splitlines() if len(line) > 60]
    assert len(set(paragraphs)) >= 0.95 * len(paragraphs)


def test_a_length_that_holds_no_question_is_refused():
    with pytest.raises(UsageError, match="give --context more"):
        prompts.built_in("code", 10, count)


def test_a_text_file_is_one_prompt_and_jsonl_is_many(tmp_path):
    text, lines = tmp_path / "mine.txt", tmp_path / "some.jsonl"
    text.write_text("Explain rainbows.")
    rows = [{"id": "a", "prompt": "one"}, {"prompt": "two"}]
    lines.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert prompts.from_file(text) == [("mine", "Explain rainbows.")]
    assert prompts.from_file(lines) == [("a", "one"), ("2", "two")]


def test_signs_that_only_look_like_line_ends_stay_in_a_prompt(tmp_path):
    lines = tmp_path / "windows.jsonl"
    lines.write_bytes('\ufeff{"prompt": "one\u2028two\u0085"}\r\n'.encode())
    assert prompts.from_file(lines) == [("1", "one\u2028two\u0085")]


@pytest.mark.parametrize(
    "content", ["", "{", '{"text": 1}', '{"prompt": 3}', "[]", '{"prompt": " "}',
                '{"id": 1, "prompt": "a"}\n{"id": 1, "prompt": "b"}']
)  # fmt: skip
def test_a_file_without_prompts_is_one_clear_line(tmp_path, content):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"bad\.jsonl"):
        prompts.from_file(path)
    with pytest.raises(UsageError):
        prompts.from_file(tmp_path / "absent.txt")
