"""A head that lies in another folder drafts as one in the target's own files."""

import json

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from fixtures import heads
from llm_specdec.drafters.common.language_model import load
from llm_specdec.drafters.mtp.loading import load_head
from llm_specdec.drafters.recognise import read
from llm_specdec.errors import CheckpointError, UnsupportedError
from tests.support.heads import outputs

PACKAGINGS = [
    ("model.safetensors", ""),
    ("model.safetensors", "mtp."),
    ("model.safetensors", "language_model.mtp."),
    ("mtp.safetensors", "mtp."),
    ("mtp/weights.safetensors", ""),
    ("model-mtp.safetensors", "mtp."),
    ("heads/extra.safetensors", "mtp."),
]


def named(folder, file):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | {"mlx_lm_extra_tensors": {"mtp_file": file}}
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(("file", "prefix"), PACKAGINGS)
def test_every_packaging_gives_the_same_head(tmp_path, file, prefix):
    case = heads.CASES["llama sidecar"]
    expected = outputs(heads.write(case, tmp_path / "target"))
    head = heads.take_out(case, tmp_path / "target", tmp_path / "head", file, prefix)
    if file.startswith("heads/"):
        named(head, file)
    assert read(head).kind == "mtp-sidecar"
    drafter = load_head(head, load(tmp_path / "target"))
    assert mx.allclose(outputs(drafter.head), expected, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in heads.CASES if "sidecar" not in name])
def test_every_layout_works_alone(tmp_path, name):
    case = heads.CASES[name]
    expected = outputs(heads.write(case, tmp_path / "target"))
    head = heads.take_out(case, tmp_path / "target", tmp_path / "head")
    assert read(head).kind == "mtp-sidecar"
    drafter = load_head(head, load(tmp_path / "target"))
    assert mx.allclose(outputs(drafter.head), expected, atol=1e-4)


def test_a_file_that_the_config_names_is_the_targets_head(tmp_path):
    case = heads.Case("llama", heads.CASES["llama"].names, file="extra/head.safetensors")
    expected = outputs(heads.write(case, tmp_path / "target"))
    assert "mtp" not in read(tmp_path / "target").parts
    named(tmp_path / "target", case.file)
    target = load(tmp_path / "target")
    assert mx.allclose(outputs(load_head(tmp_path / "target", target).head), expected, atol=1e-5)


@pytest.mark.parametrize(
    "file", ["../head.safetensors", "/etc/head.safetensors", "gone.safetensors"]
)
def test_a_named_file_outside_the_folder_or_missing_is_refused(tmp_path, file):
    heads.write(heads.CASES["llama"], tmp_path / "target")
    named(tmp_path / "target", file)
    with pytest.raises(CheckpointError, match="mtp_file is"):
        read(tmp_path / "target")


def test_one_module_may_be_packed_otherwise_than_the_rest(tmp_path):
    """Bits and groups are read from the tensors, whatever the config says of them."""
    case = heads.CASES["llama sidecar 4-bit"]
    expected = heads.write(case, tmp_path / "target")
    head = heads.take_out(case, tmp_path / "target", tmp_path / "head")
    path = head / "model.safetensors"
    stored = heads.read(path)
    matrix = mx.random.normal((64, 128))
    packed = mx.quantize(matrix, group_size=64, bits=8)
    stored |= {f"fc.{part}": packed[i] for i, part in enumerate(("weight", "scales", "biases"))}
    mx.save_safetensors(str(path), stored)
    found = load_head(head, load(tmp_path / "target")).head
    assert (found.projection.bits, found.projection.group_size) == (8, 64)
    assert (found.layer.mlp.up_proj.bits, found.layer.mlp.up_proj.group_size) == (4, 32)
    expected.projection = found.projection
    assert mx.allclose(outputs(found), outputs(expected), atol=1e-5)


def test_embeddings_of_its_own_are_refused_by_key(tmp_path):
    case = heads.CASES["llama sidecar"]
    heads.write(case, tmp_path / "target")
    target = load(tmp_path / "target")
    path = tmp_path / "target/config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"mtp_use_dedicated_embeddings": True})
    )
    with pytest.raises(UnsupportedError, match="mtp_use_dedicated_embeddings"):
        load_head(tmp_path / "target", target)


def test_a_head_is_quantised_on_load_and_its_choice_of_experts_stays_exact(tmp_path):
    case = heads.CASES["qwen3_next"]
    whole = outputs(heads.write(case, tmp_path / "target"))
    head = load_head(tmp_path / "target", load(tmp_path / "target"), bits=8, group_size=32).head
    held = dict(tree_flatten(head.parameters()))
    packed = {name for name in held if name.endswith(".scales")}
    assert {"projection.scales", "layer.mlp.switch_mlp.up_proj.scales"} <= packed
    assert not any("gate.scales" in name for name in packed)
    assert 0 < mx.abs(outputs(head) - whole).max() < 0.2


def test_the_names_of_a_split_glm_head_are_known(tmp_path):
    """Flat, with the layer under `mtp_block`."""
    case = heads.CASES["glm4_moe_lite"]
    expected = outputs(heads.write(case, tmp_path / "target"))
    head = heads.take_out(case, tmp_path / "target", tmp_path / "head")
    names = {
        "shared_head.norm.weight": "model.shared_head_norm.weight",
        "shared_head.head.weight": "lm_head.weight",
    }
    top = ("enorm.", "hnorm.", "eh_proj.", "embed_tokens.")
    split = {}
    for name, value in heads.read(head / "model.safetensors").items():
        rest = name.removeprefix("model.layers.2.")
        block = "model." if rest.startswith(top) else "model.mtp_block."
        split[names.get(rest, block + rest)] = value
    mx.save_safetensors(str(head / "model.safetensors"), split)
    assert read(head).kind == "mtp-sidecar"
    drafter = load_head(head, load(tmp_path / "target"))
    assert mx.allclose(outputs(drafter.head), expected, atol=1e-4)
