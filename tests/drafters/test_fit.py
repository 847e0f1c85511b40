from pathlib import Path

import pytest

from llm_specdec.drafters import fit, recognise
from tests.support.checkpoints import (
    qwen_head,
    tokenizer_json,
    trunk,
    write_json,
    write_model,
    write_safetensors,
)

DRAFTERS = Path(__file__).parents[2] / "fixtures" / "drafters"


def read(folder):
    return recognise.read(folder)


def cost(target, drafter=None):
    return fit.draft_cost(target, drafter)


def wide_target(folder, hidden=576, layers=30, vocab=49152):
    """A target of the shape that the shipped drafters are made for."""
    shapes = trunk(layers, hidden=hidden, kv=192, vocab=vocab)
    config = {"hidden_size": hidden, "num_hidden_layers": layers, "vocab_size": vocab}
    write_json(folder / "config.json", {"model_type": "llama", **config})
    write_safetensors(folder / "model.safetensors", shapes, sparse=True)
    write_json(folder / "tokenizer.json", tokenizer_json())
    return read(folder)


def test_shipped_drafters_fit_their_target(tmp_path):
    target = wide_target(tmp_path)
    assert fit.mismatches(target, read(DRAFTERS / "dflash2")) == []
    assert fit.mismatches(target, read(DRAFTERS / "mtp")) == []


def test_a_drafter_of_another_shape_is_refused_with_both_figures(tmp_path):
    target = wide_target(tmp_path, hidden=512, layers=24)
    assert fit.mismatches(target, read(DRAFTERS / "dflash2")) == [
        "hidden size: the drafter reads 576, the target has 512",
        "layers: the drafter is made for 30, the target has 24",
        "layer ids: the drafter reads layer 27, the target's last is 23",
    ]
    assert fit.mismatches(target, read(DRAFTERS / "mtp")) == [
        "hidden size: the head is made for 576, the target has 512"
    ]


@pytest.mark.parametrize(
    ("vocab_size", "problem"),
    [
        (49152 + 512, None),
        (49152 - 512, None),
        (50432, "vocabulary: the drafter has 49,152 entries, the target 50,432 for 4 tokens"),
        (900, "vocabulary: the drafter has 49,152 entries, the target 900 for 4 tokens"),
    ],
)
def test_vocabularies_may_differ_by_padding_alone(tmp_path, vocab_size, problem):
    found = fit.mismatches(wide_target(tmp_path, vocab=vocab_size), read(DRAFTERS / "dflash2"))
    assert found == ([problem] if problem else [])


def test_a_drafter_in_the_speculators_packaging_is_read(tmp_path):
    (tmp_path / "target").mkdir()
    target = wide_target(tmp_path / "target")
    inner = {"model_type": "qwen3", "hidden_size": 576, "num_hidden_layers": 1, "vocab_size": 49152}
    config = {
        "speculators_model_type": "dflash",
        "transformer_layer_config": inner,
        "aux_hidden_state_layer_ids": [2, 15, 28],
        "mask_token_id": 4,
        "block_size": 8,
    }
    folder = tmp_path / "drafter"
    folder.mkdir()
    write_json(folder / "config.json", config)
    shapes = {
        "fc.weight": ("F16", (576, 3 * 576)),
        "hidden_norm.weight": ("F16", (576,)),
        "d2t": ("I32", (32,)),
    }
    write_safetensors(folder / "model.safetensors", shapes)
    drafter = read(folder)
    assert drafter.kind == "dflash"
    assert drafter.parts["dflash"].target_layer_ids == (1, 14, 27)
    assert fit.mismatches(target, drafter) == []


def test_a_model_drafter_needs_the_same_tokenizer(tmp_path):
    target = read(write_model(tmp_path / "a"))
    other = read(write_model(tmp_path / "b", tokenizer=tokenizer_json(words=("b", "a", "ab"))))
    [line] = fit.mismatches(target, other)
    assert line.startswith("tokenizer: vocabulary: 2 of 4 entries")
    assert fit.mismatches(target, read(write_model(tmp_path / "c"))) == []


def test_a_model_drafter_with_fewer_positions_is_refused(tmp_path):
    target = read(write_model(tmp_path / "target"))
    for rows, problems in ((512, []), (256, ["positions: the drafter has 256 and none beyond"])):
        shapes = trunk(1) | {"model.wpe.weight": ("F16", (rows, 64))}
        drafter = read(write_model(tmp_path / f"{rows}", shapes=shapes, num_hidden_layers=1))
        found = fit.mismatches(target, drafter)
        assert [line.split(",")[0] for line in found] == problems


def test_lane_is_head_then_drafter_then_lookup(tmp_path):
    plain = read(write_model(tmp_path / "plain", mtp_num_hidden_layers=1))
    headed = read(write_model(tmp_path / "headed", shapes=trunk() | qwen_head()))
    same = read(write_model(tmp_path / "same"))
    other = read(write_model(tmp_path / "other", tokenizer=tokenizer_json(words=("x",))))
    assert fit.recommend(headed, same).kind == "mtp"
    assert fit.recommend(plain, same).kind == "model"
    assert fit.recommend(plain, other).kind == "lookup"
    lane = fit.recommend(plain)
    assert lane.kind == "lookup"
    assert "the config promises one" in lane.reason


def test_a_drafter_beside_a_head_is_objected_to(tmp_path):
    headed = read(write_model(tmp_path / "headed", shapes=trunk() | qwen_head()))
    drafter = read(write_model(tmp_path / "same"))
    assert "ships its own prediction head" in fit.warnings(headed, drafter)[0]
    assert fit.objection(drafter) is None


def test_a_drafter_as_large_as_its_target_is_warned_about(tmp_path):
    target, drafter = (read(write_model(tmp_path / name)) for name in "ab")
    assert cost(target, drafter).share == 1
    assert "can hardly pay" in fit.warnings(target, drafter)[0]


def test_head_cost_counts_the_output_head_it_uses(tmp_path):
    headed = read(write_model(tmp_path, shapes=trunk() | qwen_head()))
    expected = headed.parts["mtp"].nbytes + 100 * 64 * 2
    assert cost(headed).bytes_per_pass == expected


def test_only_the_experts_in_use_are_read(tmp_path):
    shapes = trunk() | {
        f"model.layers.0.mlp.experts.{n}.up_proj.weight": ("F16", (64, 64)) for n in range(8)
    }
    config = {"num_experts": 8, "num_experts_per_tok": 2}
    found = read(write_model(tmp_path, shapes=shapes, **config))
    assert found.pass_bytes == found.weight_bytes - 6 * 64 * 64 * 2


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "odd", "auto_map": {"AutoModelForCausalLM": "m.Odd"}}, "own Python code"),
        ({"model_file": "model.py"}, "own Python code"),
        ({"model_type": "odd"}, "no model type 'odd'"),
    ],
)
def test_targets_that_nothing_here_may_run(tmp_path, config, words):
    [line] = fit.target_problems(read(write_model(tmp_path, **config)))
    assert words in line


def test_auto_map_of_a_type_that_mlx_lm_has_needs_no_code(tmp_path):
    write_model(tmp_path, auto_map={"AutoModelForCausalLM": "m.Llama"})
    assert fit.target_problems(read(tmp_path)) == []


def test_a_drafter_is_never_a_target():
    [line] = fit.target_problems(read(DRAFTERS / "dflash2"))
    assert "a helper, never a target" in line
