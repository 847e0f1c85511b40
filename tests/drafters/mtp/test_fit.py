"""A head from another folder is refused where it does not suit, with both figures."""

import pytest

from llm_specdec.drafters import fit
from llm_specdec.drafters.recognise import read
from tests.support.checkpoints import (
    LLAMA,
    quantise,
    qwen_head,
    tokenizer_json,
    trunk,
    write_json,
    write_model,
    write_safetensors,
)


def alone(folder, shapes=None, **config):
    text = {**LLAMA, "num_hidden_layers": 64}
    write_json(folder / "config.json", {"model_type": "llama_mtp", "text_config": text, **config})
    write_safetensors(folder / "model.safetensors", shapes or qwen_head(""))
    return folder


def differences(tmp_path, head, lent=False):
    target = read(write_model(tmp_path / "target"))
    return fit.mismatches(target, read(head), lent)


@pytest.mark.parametrize(
    ("shapes", "config", "said"),
    [
        (
            qwen_head("", hidden=32),
            {},
            "hidden size: the head is made for 32, the target has 64",
        ),
        (
            {**qwen_head(""), "layers.0.self_attn.k_proj.weight": ("F16", (64, 64))},
            {},
            "layer.self_attn.k_proj.weight: the head has 64 × 64, the target 32 × 64",
        ),
        (
            {**qwen_head(""), "layers.0.input_layernorm.weight": ("F16", (32,))},
            {},
            "layer.input_layernorm.weight: the head has 32, the target 64",
        ),
        (
            None,
            {"text_config": {**LLAMA, "vocab_size": 200}},
            "vocabulary: the head is made for 200 entries, the target has 100",
        ),
        (
            None,
            {"mtp_use_dedicated_embeddings": True},
            "head: mtp_use_dedicated_embeddings asks for embeddings of its own, which no "
            "prediction head here has",
        ),
        (
            {n: t for n, t in qwen_head("").items() if n != "norm.weight"},
            {},
            "head holds a prediction head that lacks norm.weight",
        ),
    ],
)
def test_what_does_not_suit_is_said_with_both_figures(tmp_path, shapes, config, said):
    assert differences(tmp_path, alone(tmp_path / "head", shapes, **config)) == [said]


@pytest.mark.parametrize("dress", [dict, quantise])
def test_a_head_that_suits_is_taken_packed_or_not(tmp_path, dress):
    assert differences(tmp_path, alone(tmp_path / "head", dress(qwen_head("")))) == []


def test_a_base_of_another_vocabulary_lends_nothing(tmp_path):
    words = tokenizer_json(words=("x", "y", "xy"))
    base = write_model(tmp_path / "base", shapes=trunk() | qwen_head(), tokenizer=words)
    (said,) = differences(tmp_path, base, lent=True)
    assert "3 of 3 entries have another id" in said or "entries" in said


def test_a_model_that_lends_its_head_is_not_the_small_model(tmp_path):
    base = write_model(tmp_path / "base", shapes=trunk() | qwen_head())
    assert fit.kind_in(read(base), lent=True).name == "mtp"
    assert fit.kind_in(read(base), lent=False).name == "model"
