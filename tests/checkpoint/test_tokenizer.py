import pytest

from llm_specdec import checkpoint
from llm_specdec.checkpoint import tokenizer
from tests.support.checkpoints import tokenizer_json, write_json


def facts(folder):
    data = tokenizer.read(folder)
    return tokenizer.facts(folder, data, tokenizer.special_ids(folder, (3, 2)))


def differences(tmp_path, first, second):
    write_json(tmp_path / "a" / "tokenizer.json", first)
    write_json(tmp_path / "b" / "tokenizer.json", second)
    return checkpoint.compare_tokenizers(tmp_path / "a", tmp_path / "b")


def test_equal_content_is_compatible_whatever_the_padded_vocab_size(tmp_path):
    write_json(tmp_path / "a" / "config.json", {"vocab_size": 151_936})
    write_json(tmp_path / "b" / "config.json", {"vocab_size": 152_064})
    spelled_apart = tokenizer_json(merges=[["a", "b"]])
    assert differences(tmp_path, tokenizer_json(), spelled_apart) == []


def test_equal_size_with_other_content_is_a_difference_with_figures(tmp_path):
    found = differences(tmp_path, tokenizer_json(), tokenizer_json(words=("b", "a", "ab")))
    assert found == ["vocabulary: 2 of 4 entries have another id, first 'a': 0 against 1"]


def test_vocabularies_of_other_sizes_name_both_figures(tmp_path):
    found = differences(tmp_path, tokenizer_json(), tokenizer_json(words=("a", "b", "ab", "c")))
    assert found == ["vocabulary: 4 entries against 5"]


def test_merges_special_tokens_and_steps_are_compared(tmp_path):
    other = tokenizer_json(merges=("b a",), normalizer={"type": "NFC"})
    other["added_tokens"][0]["special"] = False
    assert differences(tmp_path, tokenizer_json(), other) == [
        "merges: equal in number (1), first difference at 0",
        "added tokens: 1 differ, for example '<end>'",
        "normaliser: none against NFC",
    ]


def test_without_a_file_nothing_is_claimed(tmp_path):
    write_json(tmp_path / "a" / "tokenizer.json", tokenizer_json())
    (tmp_path / "b").mkdir()
    [line] = checkpoint.compare_tokenizers(tmp_path / "a", tmp_path / "b")
    assert "no tokenizer.json in b" in line


def test_template_tells_thinking_switch_and_tool_format(tmp_path):
    write_json(tmp_path / "tokenizer.json", tokenizer_json())
    write_json(tmp_path / "generation_config.json", {"eos_token_id": [3, 2]})
    template = "{% if tools %}<tool_call>\n<function=x>{% endif %}{% if enable_thinking %}<think>"
    (tmp_path / "chat_template.jinja").write_text(template)
    found = facts(tmp_path)
    assert (found.thinking, found.tools) == ("enable_thinking", "qwen3_coder")
    assert found.special_ids == {"eos": (3, 2)}
    assert (found.type, found.vocabulary, found.highest_id) == ("BPE", 4, 3)


@pytest.mark.parametrize(
    ("template", "tools"),
    [
        ("{{ messages }}", None),
        ("{{ tools }}<|channel|>", "harmony"),
        ('{{ tools }}{"name"', "in the template, no parser for calls"),
    ],
)
def test_tools_are_of_use_where_calls_can_be_read(tmp_path, template, tools):
    write_json(tmp_path / "tokenizer.json", tokenizer_json())
    (tmp_path / "chat_template.jinja").write_text(template)
    assert facts(tmp_path).tools == tools
