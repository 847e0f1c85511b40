from typing import Any

import pytest

from llm_specdec.drafters import recognise
from llm_specdec.errors import CheckpointError
from tests.support.checkpoints import layer, trunk, write_json, write_model, write_safetensors


def read(folder):
    return recognise.read(folder)


def kinds(found):
    return [(c.kind, c.window) for c in found.caches]


def big(folder, config, shapes):
    """A checkpoint of any size: headers are real, data is a hole in the file."""
    write_json(folder / "config.json", config)
    write_safetensors(folder / "model.safetensors", shapes, sparse=True)
    return read(folder)


def test_dense_27b_grows_a_quarter_megabyte_per_token(tmp_path):
    """The founding note measured roughly 0.25 MB: 64 layers × 2 × 4 heads × 256 × 2 bytes."""
    config = {"model_type": "qwen3", "num_hidden_layers": 64, "hidden_size": 5120}
    found = big(tmp_path, config, trunk(64, hidden=5120, kv=1024, vocab=1000, dtype="BF16"))
    assert found.kv_bytes_per_token == 262_144
    assert found.kv_bytes(32_768) == 32_768 * 262_144


def hybrid(folder, layers=64):
    shapes: dict[str, Any] = {"language_model.model.embed_tokens.weight": ("BF16", (1000, 5120))}
    for index in range(layers):
        prefix = f"language_model.model.layers.{index}"
        if index % 4 == 3:
            shapes |= layer(prefix, hidden=5120, kv=1024, dtype="BF16")
            continue
        shapes |= {
            f"{prefix}.linear_attn.in_proj_qkv.weight": ("BF16", (10240, 5120)),
            f"{prefix}.linear_attn.conv1d.weight": ("BF16", (10240, 4, 1)),
            f"{prefix}.linear_attn.A_log": ("F32", (48,)),
            f"{prefix}.linear_attn.norm.weight": ("BF16", (128,)),
        }
    text = {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": layers,
        "hidden_size": 5120,
        "linear_key_head_dim": 128,
    }
    return big(folder, {"model_type": "qwen3_5", "text_config": text}, shapes)


def test_hybrid_27b_grows_in_its_full_layers_only(tmp_path):
    found = hybrid(tmp_path)
    assert kinds(found)[:4] == [("recurrent", None)] * 3 + [("full", None)]
    assert found.kv_bytes_per_token == 16 * 2048 * 2
    state = 48 * (10240 * 3 * 2 + 4 * 48 * 128 * 128)
    assert found.kv_bytes(256) == 256 * 65_536 + state


def test_sliding_layers_stop_growing_at_their_window(tmp_path):
    found = read(
        write_model(
            tmp_path,
            shapes=trunk(6),
            model_type="gemma3_text",
            num_hidden_layers=6,
            sliding_window=512,
        )
    )
    assert kinds(found) == [("sliding", 512)] * 5 + [("full", None)]
    assert found.kv_bytes(4096) == (5 * 512 + 4096) * 64 * 2


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        ({"model_type": "qwen2", "sliding_window": 8}, [None] * 4),
        ({"model_type": "mistral", "sliding_window": 8}, [None] * 4),
        (
            {
                "model_type": "llama",
                "sliding_window": 8,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
            },
            [8, None] * 2,
        ),
        ({"model_type": "gpt_oss", "sliding_window": 8}, [8, None] * 2),
        ({"model_type": "olmo3", "sliding_window": 8}, [8, 8, 8, None]),
        (
            {"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": "LLLG"},
            [8, 8, 8, None],
        ),
        ({"model_type": "cohere2", "sliding_window": 8}, [8, 8, 8, None]),
        (
            {
                "model_type": "mimo_v2_flash",
                "sliding_window_size": 8,
                "hybrid_layer_pattern": [0, 1, 1, 0],
            },
            [None, 8, 8, None],
        ),
    ],
)
def test_windows_follow_the_rules_of_each_model_type(tmp_path, config, windows):
    write_model(tmp_path, shapes=trunk(4), num_hidden_layers=4, **config)
    assert [c.window for c in read(tmp_path).caches] == windows


def test_latent_attention_keeps_the_latent_only(tmp_path):
    shapes = trunk()
    for index in range(2):
        for name in ("k_proj", "v_proj"):
            del shapes[f"model.layers.{index}.self_attn.{name}.weight"]
        shapes[f"model.layers.{index}.self_attn.kv_a_proj_with_mqa.weight"] = ("F16", (24, 64))
    latent = {"qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    found = read(write_model(tmp_path, shapes=shapes, model_type="deepseek_v3", **latent))
    assert found.kv_bytes_per_token == 2 * 24 * 2
    found = read(write_model(tmp_path, shapes=shapes, model_type="deepseek_v2", **latent))
    assert found.kv_bytes_per_token == 2 * 4 * (16 + 8 + 16) * 2


def test_fused_projections_take_their_width_from_the_config(tmp_path):
    shapes = trunk()
    for index in range(2):
        for name in ("q_proj", "k_proj", "v_proj"):
            del shapes[f"model.layers.{index}.self_attn.{name}.weight"]
        shapes[f"model.layers.{index}.self_attn.qkv_proj.weight"] = ("F16", (128, 64))
    found = read(write_model(tmp_path, shapes=shapes, model_type="phi3"))
    assert found.kv_bytes_per_token == 2 * (2 * 2 * 16) * 2


def test_shared_caches_are_not_counted_twice(tmp_path):
    write_model(
        tmp_path,
        shapes=trunk(4),
        model_type="gemma4_text",
        num_hidden_layers=4,
        num_kv_shared_layers=2,
        layer_types=["full_attention"] * 4,
    )
    assert [c.kind for c in read(tmp_path).caches] == ["full", "full", "shared", "shared"]


@pytest.mark.parametrize("model_type", ["no_such_type", "llama4", "../../etc"])
def test_a_type_that_only_loading_can_tell_is_said_to_be_unknown(tmp_path, model_type):
    found = read(write_model(tmp_path, model_type=model_type))
    assert found.caches is None
    assert found.kv_bytes(4096) is None


def test_layers_that_the_config_leaves_out_are_noted(tmp_path):
    assert read(write_model(tmp_path, num_hidden_layers=1)).notes == (
        "the config says 1 layers, the files hold 2",
    )


def test_quantised_cache_counts_bits_and_scales(tmp_path):
    found = read(write_model(tmp_path))
    assert found.kv_bytes(256, kv_bits=8) == 256 * 2 * 64 * (1 + 4 / 64)


def test_a_pattern_of_letters_that_is_a_number_is_refused(tmp_path):
    window = {"sliding_window": 8, "sliding_window_pattern": 4}
    write_model(tmp_path, shapes=trunk(4), model_type="exaone4", num_hidden_layers=4, **window)
    with pytest.raises(CheckpointError, match="sliding_window_pattern is 4, a text like LLLG"):
        _ = read(tmp_path).caches
