"""Ten layouts that checkpoints come in, and what inspect says of each."""

import json

import pytest

from tests.support.checkpoints import (
    LLAMA,
    quantise,
    qwen_head,
    trunk,
    write_json,
    write_model,
    write_safetensors,
)
from tests.support.command_line import specdec


def plain(folder):
    write_model(folder)


def sharded(folder):
    write_model(folder)
    (folder / "model.safetensors").unlink()
    names = sorted(trunk())
    halves = {"model-00001-of-00002.safetensors": names[::2]}
    halves["model-00002-of-00002.safetensors"] = names[1::2]
    for file, part in halves.items():
        write_safetensors(folder / file, {name: trunk()[name] for name in part})
    index = {name: file for file, part in halves.items() for name in part}
    write_json(folder / "model.safetensors.index.json", {"weight_map": index})


def quantised(folder):
    config = {"quantization": {"bits": 4, "group_size": 32}}
    write_model(folder, config, quantise(trunk()))


def mixed(folder):
    shapes = quantise(trunk(), keep=("norm", "embed"))
    shapes |= quantise({"model.embed_tokens.weight": ("F16", (100, 64))}, bits=8)
    write_model(folder, {"quantization": {"bits": 4, "group_size": 32}}, shapes)


def sidecar_head(folder):
    write_model(folder)
    write_safetensors(folder / "mtp.safetensors", qwen_head())


def lying_config(folder):
    """A head promised, other bits and fewer layers than there are."""
    lies = {"mtp_num_hidden_layers": 1, "num_hidden_layers": 1}
    write_model(folder, {**lies, "quantization": {"bits": 8, "group_size": 32}}, quantise(trunk()))


def tied_with_a_second_output(folder):
    write_model(folder, shapes=trunk() | {"lm_head.weight": ("F16", (100, 64))})


def nested_with_vision(folder):
    shapes = trunk(prefix="model.language_model.") | {
        "model.visual.blocks.0.attn.qkv.weight": ("F16", (192, 64)),
        **qwen_head(),
    }
    config = {"model_type": "qwen3_5", "text_config": {**LLAMA, "model_type": "qwen3_5_text"}}
    write_json(folder / "config.json", config)
    write_safetensors(folder / "model.safetensors", shapes)


def sliding(folder):
    write_model(folder, {"model_type": "gemma3_text", "sliding_window_pattern": 2}, trunk())


def recurrent(folder):
    shapes = trunk()
    for rest in ("q_proj", "k_proj", "v_proj", "o_proj"):
        del shapes[f"model.layers.0.self_attn.{rest}.weight"]
    shapes["model.layers.0.linear_attn.conv1d.weight"] = ("F16", (64, 4, 1))
    write_model(folder, {"model_type": "qwen3_next"}, shapes)


PLAIN_BYTES = 2 * (100 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64))
FULL = {"kind": "full", "window": None}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (plain, {"weight_bytes": PLAIN_BYTES, "caches": [FULL] * 2, "head": None}),
        (sharded, {"weight_bytes": PLAIN_BYTES, "notes": []}),
        (quantised, {"quantisation.bits": 4, "quantisation.config_bits": None}),
        (mixed, {"quantisation.mixed": [(4, 14), (8, 1)]}),
        (sidecar_head, {"head.layout": "qwen", "head.files": ["mtp.safetensors"]}),
        (
            lying_config,
            {
                "head": None,
                "head_promised": 1,
                "quantisation.bits": 4,
                "quantisation.config_bits": 8,
                "notes": ["the config says 1 layers, the files hold 2"],
            },
        ),
        (tied_with_a_second_output, {"tied_embeddings": True, "weight_bytes": PLAIN_BYTES}),
        (
            nested_with_vision,
            {"weight_bytes": PLAIN_BYTES, "head.layout": "qwen", "hidden_size": 64},
        ),
        (sliding, {"caches": [{"kind": "sliding", "window": 512}, FULL]}),
        (recurrent, {"caches": [{"kind": "recurrent", "window": None}, FULL]}),
    ],
)
def test_what_inspect_says_of_a_layout(tmp_path, make, expected):
    make(tmp_path)
    done = specdec("inspect", tmp_path, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)["target"]
    for key, value in expected.items():
        outer, _, inner = key.partition(".")
        shown = found[outer][inner] if inner else found[outer]
        if inner == "mixed":
            shown = [(entry["bits"], entry["matrices"]) for entry in shown]
        assert shown == value, key


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("model-q4.gguf", "GGUF files, not MLX weights"),
        ("adapters.safetensors", "an adapter, not a model"),
        ("pytorch_model.bin", "PyTorch files, not safetensors: take a build in safetensors"),
        (None, "an empty folder"),
    ],
)
def test_a_folder_without_a_model_is_one_line_and_exit_1(tmp_path, file, words):
    if file:
        write_safetensors(tmp_path / file, {"a": ("F16", (2,))})
    done = specdec("inspect", tmp_path)
    assert done.exit_code == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_of_a_repository_whose_weights_were_not_downloaded_it_says_what_to_take(tmp_path):
    write_json(tmp_path / "config.json", LLAMA)
    done = specdec("inspect", tmp_path)
    assert done.exit_code == 1 and done.stderr.count("\n") == 1
    assert "no safetensors file beside config.json: take a build that has them" in done.stderr
