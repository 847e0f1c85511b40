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
            {"text_config": {**LLAMA, "num_attention_heads": 8}},
            "num_attention_heads: the head is made for 8, the target has 4",
        ),
        (
            None,
            {"text_config": {**LLAMA, "rms_norm_eps": 1e-6}},
            "rms_norm_eps: the head is made for 1e-06, the target has 1e-05",
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
            "head holds a prediction head that cannot be used: it lacks norm.weight",
        ),
    ],
)
def test_what_does_not_suit_is_said_with_both_figures(tmp_path, shapes, config, said):
    assert differences(tmp_path, alone(tmp_path / "head", shapes, **config)) == [said]


@pytest.mark.parametrize(
    ("theta", "said"),
    [(5e6, ["rope_theta: the head is made for 5000000.0, the target has 10000"]), (1e4, [])],
)
def test_a_rotation_is_compared_wherever_it_is_written(tmp_path, theta, said):
    target = read(write_model(tmp_path / "target", rope_theta=10000))
    text = {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": theta}}
    head = alone(tmp_path / "head", text_config=text)
    assert fit.mismatches(target, read(head)) == said


def test_a_head_for_a_model_that_mlx_lm_lacks_is_named(tmp_path):
    shapes = {"mtp.e_proj.weight": ("F16", (64, 64)), "mtp.attn.wq.weight": ("F16", (64, 64))}
    head = alone(tmp_path / "head", shapes, model_type="glm5_next_mtp")
    assert read(head).kind == "mtp-sidecar"
    assert differences(tmp_path, head) == [
        "head is a prediction head for glm5_next, and mlx-lm has no glm5_next yet"
    ]


APPENDED = {
    f"model.layers.2.{name}.weight": ("F16", (64,) if "norm" in name else (64, 128))
    for name in ("enorm", "hnorm", "eh_proj", "shared_head.norm", "input_layernorm")
}
MANY = {f"model.mtp.layers.{i}.eh_proj.weight": ("F16", (64, 128)) for i in range(3)}


@pytest.mark.parametrize(
    ("model_type", "shapes", "said"),
    [
        ("glm_moe_dsa", APPENDED, "an index of its own"),
        ("step3p5", APPENDED, "a layer and an output matrix of its own"),
        ("mimo_v2_flash", MANY, "a layer of its own with a sliding window"),
        ("longcat_flash", MANY, "of another kind than the target's"),
    ],
)
def test_a_head_that_is_known_and_not_run_says_why(tmp_path, model_type, shapes, said):
    config = {"model_type": model_type, "first_k_dense_replace": 0}
    found = read(write_model(tmp_path / "target", config, trunk() | shapes))
    head = found.parts["mtp"]
    assert not head.usable and said in head.fault
    lane = fit.recommend(found)
    assert lane.kind == "lookup" and said in lane.reason


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
