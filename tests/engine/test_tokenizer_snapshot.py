"""A restored tokenizer gives what mlx-lm's own gives, of every kind that has a snapshot."""

import json
import random
from pathlib import Path

import pytest

from fixtures import zoo
from llm_specdec.engine import tokenizer as tokenizers
from llm_specdec.engine.tokenizer_snapshot import RestoredTokenizer
from llm_specdec.prompting.sections import sections_of
from llm_specdec.prompting.text import TextStream
from tests.support import chains

FAMILIES = Path(__file__).parents[1] / "prompting" / "families"
WORDS = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<|channel|>", "<|message|>", "<|call|>",
    "<|start|>", "<|end|>", "<|im_start|>", "<|im_end|>", "[TOOL_CALLS]",
]  # fmt: skip
TEXTS = [
    "", " ", "\n", "Hello, world!", "  two spaces , and  more \t\n\n",
    "naïve café – 東京 🏳️‍🌈 e\u0301",
    "<s>user</s> <|im_start|>assistant\n<think>\n\n</think>", "don't 1234567 x**2\r\n", "▁ Ġ ab w1",
]  # fmt: skip
ASKED = (
    "eos_token_ids", "eos_token_id", "has_chat_template", "chat_template", "special_tokens_map",
    "has_thinking", "think_start", "think_end", "think_start_tokens", "think_end_tokens",
    "has_tool_calling", "tool_call_start", "tool_call_end", "tool_parser", "structural_markers",
    "response_transitions", "response_initial_state",
)  # fmt: skip
SPM = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]


def changed(folder, name, **values):
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def pieces(folder, **model):
    """Pieces as SentencePiece spells them."""
    letters, octets = map(chr, range(97, 123)), map("<0x{:02X}>".format, range(256))
    words = ["<unk>", "<s>", "</s>", "▁", *letters, *octets]
    content = json.loads((folder / "tokenizer.json").read_text())["model"]
    vocab = {word: i for i, word in enumerate(words)}
    changed(
        folder,
        "tokenizer.json",
        model=content | {"vocab": vocab, "byte_fallback": True} | model,
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        pre_tokenizer=None,
        decoder={"type": "Sequence", "decoders": SPM},
    )


def of_zoo(folder):
    pass


def with_holes(folder):
    zoo.write_tokenizer(folder, 61, (7, 8, 30))


def sentencepiece(folder):
    pieces(folder)


def llama_class(folder):
    pieces(folder)
    changed(folder, "tokenizer_config.json", tokenizer_class="LlamaTokenizer", add_bos_token=True)


def qwen2_class(folder):
    changed(folder, "tokenizer_config.json", tokenizer_class="Qwen2Tokenizer")


def gpt2_class(folder):
    changed(folder, "tokenizer_config.json", tokenizer_class="GPT2Tokenizer")


def begins_with_bos(folder):
    pair = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    special = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
    form = {"type": "TemplateProcessing", "single": pair, "pair": pair, "special_tokens": special}
    changed(folder, "tokenizer.json", post_processor=form)


def asks_for_bos(folder):
    changed(folder, "tokenizer_config.json", add_bos_token=True)


def adds_a_token(folder):
    changed(folder, "tokenizer_config.json", additional_special_tokens=["<|more|>", "<think>"])


def spells_bytes_and_says_otherwise(folder):
    changed(folder, "tokenizer.json", decoder={"type": "Fuse"})


def cleans_spaces(folder):
    changed(folder, "tokenizer_config.json", clean_up_tokenization_spaces=True)


def tool_words(folder):
    changed(
        folder, "tokenizer_config.json", chat_template="{{ '<tool_call>' }}{{ tool_call.name }}"
    )


MADE = (of_zoo, with_holes, sentencepiece, llama_class, qwen2_class, gpt2_class, begins_with_bos,
        asks_for_bos, adds_a_token, spells_bytes_and_says_otherwise, cleans_spaces,
        tool_words)  # fmt: skip


def name_of(made):
    return made.stem if isinstance(made, Path) else made.__name__


@pytest.fixture(params=[*MADE, *sorted(FAMILIES.glob("*.jinja"))], ids=name_of)
def folder(request, tmp_path):
    if isinstance(request.param, Path):
        chains.write_tokenizer(tmp_path / "chat", WORDS, request.param.read_text())
        zoo.write("llama", tmp_path / "model")
        for path in (tmp_path / "chat").iterdir():
            path.replace(tmp_path / "model" / path.name)
    else:
        zoo.write("llama", tmp_path / "model")
        zoo.write_tokenizer(tmp_path / "model")
        request.param(tmp_path / "model")
    return tmp_path / "model"


def both(folder, monkeypatch):
    """mlx-lm's wrapper over transformers' tokenizer, and the one over the restored."""
    for cached in (tokenizers.tokenizer_of, tokenizers.vocabulary_of):
        cached.cache_clear()
    monkeypatch.setattr(tokenizers, "_tokenizers", {})
    whole, kept = tokenizers.tokenizer_of(folder), tokenizers.snapshot(folder)
    assert kept
    tokenizers.tokenizer_of.cache_clear()
    monkeypatch.setattr(tokenizers, "_tokenizers", {})
    assert tokenizers.restore(folder, kept)
    restored = tokenizers.tokenizer_of(folder)
    assert isinstance(restored._tokenizer, RestoredTokenizer)
    assert not isinstance(whole._tokenizer, RestoredTokenizer)
    return whole, restored


def streamed(tokenizer, ids):
    stream = TextStream(tokenizer.detokenizer)
    for token in ids:
        stream.feed(token)
    return [(piece.text, piece.section) for piece in [*stream.take(), *stream.finish()]]


def assert_alike(whole, restored):
    for text in TEXTS:
        for special in (False, True):
            ids = whole.encode(text, add_special_tokens=special)
            assert restored.encode(text, add_special_tokens=special) == ids
            assert restored.decode(ids) == whole.decode(ids)
            plain = whole.decode(ids, skip_special_tokens=True)
            assert restored.decode(ids, skip_special_tokens=True) == plain
    assert restored.get_vocab() == whole.get_vocab() and len(restored) == len(whole)
    ids, some = sorted(whole.get_vocab().values()), random.Random(0)
    assert restored.convert_ids_to_tokens(ids) == whole.convert_ids_to_tokens(ids)
    for _ in range(30):
        drawn = some.choices(ids, k=20)
        assert restored.decode(drawn) == whole.decode(drawn)
        assert streamed(restored, drawn) == streamed(whole, drawn)
    for name in ASKED:
        found, wanted = getattr(restored, name), getattr(whole, name)
        if callable(wanted):  # a parser, of one module under two names or the same
            assert (found.__module__, found.__name__) == (wanted.__module__, wanted.__name__)
        else:
            assert found == wanted, name
    for tools in (False, True):
        one, other = (repr(sections_of(tokenizer, tools)) for tokenizer in (restored, whole))
        assert one == other
    assert type(restored.detokenizer).__name__ == type(whole.detokenizer).__name__


def test_a_restored_tokenizer_is_as_mlx_lms(folder, monkeypatch):
    whole, restored = both(folder, monkeypatch)
    assert_alike(whole, restored)
    asked = [{"role": "user", "content": "Hi"}]
    how = {"add_generation_prompt": True}
    if whole.has_chat_template and "tool_call.name" not in whole.chat_template:
        assert restored.apply_chat_template(asked, **how) == whole.apply_chat_template(asked, **how)


@pytest.mark.real
def test_that_of_smollm2_too(smollm2, monkeypatch):
    assert_alike(*both(smollm2 / "smollm2", monkeypatch))


def test_a_tokenizer_with_rules_of_its_own_is_loaded_as_ever(tmp_path, monkeypatch):
    zoo.write("llama", tmp_path)
    zoo.write_tokenizer(tmp_path)
    changed(tmp_path, "tokenizer_config.json", tokenizer_class="NewlineTokenizer")
    monkeypatch.setattr(tokenizers, "_tokenizers", {})
    assert tokenizers.snapshot(tmp_path) is None


def test_cutting_tokenizers_have_no_snapshot(tmp_path, monkeypatch):
    zoo.write("llama", tmp_path)
    zoo.write_tokenizer(tmp_path)
    cut = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    changed(tmp_path, "tokenizer.json", truncation=cut)
    monkeypatch.setattr(tokenizers, "_tokenizers", {})
    assert tokenizers.snapshot(tmp_path) is None


@pytest.mark.parametrize("kept", ["", "{}", "[]", '{"backend": "?"}', '{"backend": 5}'])
def test_what_is_no_snapshot_is_not_restored(tmp_path, monkeypatch, kept):
    zoo.write("llama", tmp_path)
    zoo.write_tokenizer(tmp_path)
    monkeypatch.setattr(tokenizers, "_tokenizers", {})
    assert not tokenizers.restore(tmp_path, kept)
    assert tokenizers.tokenizer_of(tmp_path).encode("!") == [4]
