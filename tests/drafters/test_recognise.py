"""What a folder holds, a target or a drafter of some kind, told by its tensors."""

from pathlib import Path

import pytest

from llm_specdec.drafters import mtp, recognise
from llm_specdec.drafters.recognise import read
from llm_specdec.errors import CheckpointError
from tests.support.checkpoints import (
    layer,
    qwen_head,
    trunk,
    write_json,
    write_model,
    write_safetensors,
)


@pytest.mark.parametrize(
    ("where", "prefix"),
    [
        ("model.safetensors", "mtp."),
        ("model.safetensors", "language_model.mtp."),
        ("mtp.safetensors", "mtp."),
        ("mtp/weights.safetensors", "mtp."),
        ("model-mtp.safetensors", "mtp."),
    ],
)
def test_qwen_head_is_found_wherever_its_tensors_are(tmp_path, where, prefix):
    write_model(tmp_path)
    shapes = qwen_head(prefix)
    if where == "model.safetensors":
        shapes = trunk() | shapes
    write_safetensors(tmp_path / where, shapes)
    found = read(tmp_path)
    assert (found.kind, found.parts["mtp"].layout, found.parts["mtp"].depth) == (
        "target",
        "qwen",
        1,
    )
    assert found.parts["mtp"].where == (where,)
    assert found.parts["mtp"].usable
    assert found.layers == 2
    plain = read(write_model(tmp_path / "plain"))
    assert found.weight_bytes == plain.weight_bytes


def test_deepseek_head_is_the_layers_appended_after_the_last(tmp_path):
    extra = layer("model.layers.2") | {
        f"model.layers.2.{name}.weight": ("F16", (64, 64))
        for name in ("enorm", "hnorm", "eh_proj", "shared_head.norm", "shared_head.head")
    }
    write_model(tmp_path, shapes=trunk() | extra, num_nextn_predict_layers=1)
    found = read(tmp_path)
    head = found.parts["mtp"]
    assert (head.layout, head.depth, head.usable) == (
        "deepseek",
        1,
        True,
    )
    assert found.caches is not None
    assert len(found.caches) == 2


def test_mimo_head_counts_its_layers(tmp_path):
    extra = dict[str, tuple[str, tuple[int, ...]]]()
    for index in range(2):
        extra |= layer(f"model.mtp_layers.{index}") | {
            f"model.mtp_layers.{index}.{name}.weight": ("F16", (64, 64))
            for name in ("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm")
        }
    found = read(write_model(tmp_path, shapes=trunk() | extra))
    head = found.parts["mtp"]
    assert (head.layout, head.depth, head.usable) == (
        "mimo",
        2,
        True,
    )


def test_a_config_that_promises_a_head_does_not_make_one(tmp_path):
    found = read(write_model(tmp_path, mtp_num_hidden_layers=1))
    assert "mtp" not in found.parts
    assert mtp.KIND.inspected(found)["head_promised"] == 1


def test_a_head_that_lacks_a_tensor_is_not_usable(tmp_path):
    shapes = trunk() | qwen_head()
    del shapes["mtp.pre_fc_norm_hidden.weight"]
    found = read(write_model(tmp_path, shapes=shapes))
    assert found.parts["mtp"].missing == ("pre_fc_norm_hidden.weight",)
    assert not found.parts["mtp"].usable


def test_kinds_of_folders_that_are_no_models(tmp_path):
    def made(name, *files):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_bytes(b"x")
        return tmp_path / name

    write_safetensors(made("adapter") / "adapters.safetensors", {"a": ("F16", (2,))})
    write_json(tmp_path / "adapter" / "adapter_config.json", {})
    kinds = {
        made("empty"): "empty",
        made("gguf", "model-q4.gguf"): "gguf",
        made("torch", "pytorch_model.bin"): "pytorch",
        tmp_path / "adapter": "adapter",
        made("text", "README.md"): "unknown",
    }
    for folder, kind in kinds.items():
        assert recognise.kind_of(folder) == kind
        with pytest.raises(CheckpointError):
            recognise.read(folder)


def test_shipped_drafters_are_told_apart():
    drafters = Path(__file__).parents[2] / "fixtures" / "drafters"
    kinds = {name: recognise.kind_of(drafters / name) for name in ("dflash2", "model", "mtp")}
    assert kinds == {"dflash2": "dflash", "model": "target", "mtp": "mtp-sidecar"}
    dflash = read(drafters / "dflash2").parts["dflash"]
    assert (dflash.version, dflash.block_size, dflash.target_layer_ids) == (2, 8, (1, 14, 27))
    assert dflash.fused == 3 * 576
