"""The config must describe the tensors beside it, before anything is allocated by it."""

import json
import os
import struct

import pytest

from llm_specdec.checkpoint import files
from llm_specdec.drafters import recognise
from llm_specdec.errors import CheckpointError
from tests.support.checkpoints import (
    LLAMA,
    quantise,
    trunk,
    write_json,
    write_model,
    write_safetensors,
)


def refused(folder, words):
    with pytest.raises(CheckpointError, match=words) as raised:
        recognise.read(folder)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < len(str(folder)) + 200


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"num_hidden_layers": 10**7}, "num_hidden_layers is 10,000,000, and the files hold"),
        ({"num_hidden_layers": 3}, "num_hidden_layers is 3, and the files hold 2 layers"),
        ({"n_layer": 10**7}, "n_layer is 10,000,000"),
        ({"altup_num_inputs": 10**7}, "altup_num_inputs is 10,000,000"),
        ({"vocab_size": 101}, "vocab_size is 101, and the embedding has 100 rows"),
        ({"hidden_size": 32}, "hidden_size is 32, and the embedding is 64 wide"),
        ({"max_position_embeddings": 10**400}, "max_position_embeddings is 1000"),
        ({"max_position_embeddings": 10**15}, "no model has so many"),
        ({"rope_scaling": {"factor": [10**400]}}, "factor is 1000"),
    ],
)
def test_a_config_that_its_tensors_belie_is_one_line(tmp_path, config, words):
    refused(write_model(tmp_path, config), words)


def test_a_model_type_longer_than_a_file_name_is_an_unknown_one(tmp_path):
    assert not recognise.read(write_model(tmp_path, model_type="x" * 1000)).runnable


def test_packed_matrices_are_as_wide_as_the_model(tmp_path):
    packing = {"quantization": {"bits": 4, "group_size": 32}}
    assert recognise.read(write_model(tmp_path, packing, quantise(trunk()))).hidden_size == 64
    refused(write_model(tmp_path, packing | {"hidden_size": 8}, quantise(trunk())), "64 wide")


def test_either_part_of_a_config_may_have_the_size_of_the_vocabulary(tmp_path):
    text = {**LLAMA, "vocab_size": 90}
    found = write_model(tmp_path, {"text_config": text, "vocab_size": 100})
    assert recognise.read(found).layers == 2
    refused(write_model(tmp_path, {"text_config": text, "vocab_size": 80}), "100 rows")


def test_a_layer_of_an_absurd_number_is_no_layer(tmp_path):
    shapes = trunk() | {"model.layers.99999999.mlp.up_proj.weight": ("F16", (1, 1))}
    refused(write_model(tmp_path, shapes=shapes), "a layer 99,999,999")


def header(folder, **tensors):
    raw = json.dumps(tensors).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + b"0" * 16)


def tensor(begin, end, shape=(4,), dtype="F16"):
    return {"dtype": dtype, "shape": shape, "data_offsets": (begin, end)}


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"a": tensor(0, 8), "b": tensor(6, 14)}, "tensors a and b overlap"),
        ({"a": tensor(0, 10)}, "tensor a has 10 bytes, too few or too many for 4 in F16"),
        ({"a": tensor(0, 16, (2**40, 2**40))}, "too few or too many for 1099511627776×"),
        ({"a": tensor(0, 8, dtype="Q4")}, "unknown type, Q4"),
        ({"a": tensor(0, 8, [1] * 10**5)}, "impossible offsets or sizes"),
        ({"a": tensor(0, 10**400)}, "impossible offsets or sizes"),
    ],
)
def test_tensors_have_the_bytes_of_their_shape_and_share_none(tmp_path, tensors, words):
    write_model(tmp_path)
    header(tmp_path, **tensors)
    refused(tmp_path, words)


def test_tensors_without_elements_share_no_bytes(tmp_path):
    write_model(tmp_path)
    header(tmp_path, a=tensor(0, 8), b=tensor(4, 4, (0,)), c=tensor(8, 16))
    assert files.read_header(tmp_path / "model.safetensors").keys() == {"a", "b", "c"}


SHARDS = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]


def sharded(folder, names):
    """The model in two files, those of `names` kept, beside the index of another build."""
    write_model(folder)
    (folder / "model.safetensors").unlink()
    shapes = list(trunk().items())
    for name, part in zip(SHARDS, (shapes[:6], shapes[6:]), strict=True):
        if name in names:
            write_safetensors(folder / name, dict(part))
    original = {f"x.{name}": f"model-0000{n % 5 + 1}-of-00005.safetensors" for n, (name, _) in
                enumerate(shapes)}  # fmt: skip
    write_json(folder / "model.safetensors.index.json", {"weight_map": original})
    return folder


def test_an_index_of_another_build_is_left_aside_with_a_note(tmp_path):
    (note,) = recognise.read(sharded(tmp_path / "two", SHARDS)).notes
    assert note.startswith("the index names 5 files that are not there (first model-00001-of-00005")
    whole = sharded(tmp_path / "one", [])
    write_safetensors(whole / "model.safetensors", trunk())
    assert len(recognise.read(whole).notes) == 1


def test_a_download_that_lacks_a_file_is_refused(tmp_path):
    refused(sharded(tmp_path / "a", SHARDS[1:]), "model-00001-of-00002.safetensors is missing")
    lacking = sharded(tmp_path / "b", SHARDS[:1])
    (lacking / "model.safetensors.index.json").unlink()
    refused(lacking, "model-00002-of-00002.safetensors is missing")
    index = {"weight_map": dict.fromkeys(trunk(), SHARDS[0]) | {"lm_head.weight": "b.safetensors"}}
    whole = sharded(tmp_path / "c", SHARDS)
    write_json(whole / "model.safetensors.index.json", index)
    refused(whole, "1 of 2 weight files are missing, first b.safetensors")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_no_file_of_a_model(tmp_path, name, kind):
    write_model(tmp_path)
    (tmp_path / name).unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    for look in (lambda: recognise.read(tmp_path).tokenizer, lambda: files.check_folder(tmp_path)):
        with pytest.raises(CheckpointError, match=f"{name}: .*it is a.* {kind}|a {kind}"):
            look()


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    write_model(tmp_path)
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(files.TOKENIZER_LIMIT + 1)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: .*134\.2 MB"):
        recognise.read(tmp_path).tokenizer  # noqa: B018
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        files.check_folder(tmp_path)
