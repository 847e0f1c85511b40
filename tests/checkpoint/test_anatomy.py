import json
import os
import struct
import sys

import pytest

from llm_specdec import checkpoint
from llm_specdec.drafters import recognise
from llm_specdec.errors import CheckpointError
from tests.support.checkpoints import (
    LLAMA,
    quantise,
    tokenizer_json,
    trunk,
    write_json,
    write_model,
    write_safetensors,
)


def read(folder):
    return recognise.read(folder)


def test_plain_llama_gives_its_figures(tmp_path):
    found = read(write_model(tmp_path))
    assert (found.kind, found.model_type, found.layers) == ("target", "llama", 2)
    assert found.runnable
    assert found.dtype == "float16"
    assert found.parameters == 100 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 8192)
    assert found.weight_bytes == 2 * found.parameters
    assert "mtp" not in found.parts
    assert found.quantisation is None
    assert found.kv_bytes_per_token == 2 * (32 + 32) * 2
    assert found.tokenizer.vocabulary == 4
    assert found.positions.native == 512


def test_reading_imports_no_mlx(tmp_path):
    import subprocess

    folder = write_model(tmp_path)
    code = (
        "import sys; from pathlib import Path; from llm_specdec import checkpoint;"
        "from llm_specdec.drafters import recognise;"
        f"recognise.read(Path({str(folder)!r})); checkpoint.fingerprint(Path({str(folder)!r}));"
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('mlx', 'mlx_lm', 'transformers', 'tokenizers', 'huggingface_hub', 'numpy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_quantised_bits_come_from_the_tensors_not_from_the_config(tmp_path):
    shapes = quantise(trunk(), bits=4, group=32)
    write_model(tmp_path, shapes=shapes, quantization={"bits": 8, "group_size": 32})
    found = read(tmp_path)
    assert (found.quantisation.bits, found.quantisation.group_size) == (4, 32)
    assert found.quantisation.config_bits == 8
    plain = 100 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 8192)
    assert found.parameters == plain


def test_mixed_precision_is_counted_by_matrix(tmp_path):
    shapes = quantise(trunk(), bits=4, group=32, keep=("norm", "embed"))
    shapes |= quantise({"model.embed_tokens.weight": ("F16", (100, 64))}, bits=8, group=32)
    write_model(tmp_path, shapes=shapes, quantization={"bits": 4, "group_size": 32})
    assert read(tmp_path).quantisation.mixed == {(4, 32): 14, (8, 32): 1}


def test_nested_text_config_leaves_vision_out(tmp_path):
    text = {**LLAMA, "model_type": "qwen3_5_text", "max_position_embeddings": 4096}
    shapes = trunk(prefix="language_model.model.")
    vision = {"vision_tower.blocks.0.attn.qkv.weight": ("F16", (640, 64))}
    write_json(tmp_path / "config.json", {"model_type": "qwen3_5", "text_config": text})
    write_safetensors(tmp_path / "model.safetensors", shapes | vision)
    found = read(tmp_path)
    plain = read(write_model(tmp_path / "plain"))
    assert (found.hidden_size, found.positions.native, len(found.caches)) == (64, 4096, 2)
    assert found.weight_bytes == plain.weight_bytes
    left = "text alone is read: its image or audio part stays on disk"
    assert (found.notes, plain.notes) == ((left,), ())


# ---- damaged files ----


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def long_header(folder):
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 40) + path.read_bytes()[8:])


def garbage_header(folder):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 4) + b"\xff{}x")


def stub(folder):
    (folder / "model.safetensors").write_bytes(b"abc")


def nan(folder):
    (folder / "config.json").write_text('{"model_type": "llama", "hidden_size": NaN}')


def wrong_type(folder):
    write_json(folder / "config.json", {**LLAMA, "hidden_size": "wide"})


def huge(folder):
    (folder / "config.json").write_bytes(b'{"a": "' + b"x" * 50_000_000 + b'"}')


def nested(folder):
    (folder / "config.json").write_text("[" * 100_000)


def not_an_object(folder):
    (folder / "config.json").write_text("[1]")


def loop(folder):
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("config.json")


def unreadable(folder):
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()


def lost_shard(folder):
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    (folder / "model.safetensors").rename(folder / shards[0])
    index = {"weight_map": {"model.norm.weight": shards[0], "lm_head.weight": shards[1]}}
    write_json(folder / "model.safetensors.index.json", index)


@pytest.mark.parametrize(
    "damage",
    [
        cut, long_header, garbage_header, stub, nan, wrong_type, huge, nested, not_an_object, loop,
        unreadable, lost_shard,
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_is_one_clear_line(tmp_path, damage):
    write_model(tmp_path)
    damage(tmp_path)
    with pytest.raises(CheckpointError) as raised:
        read(tmp_path)
    assert "\n" not in str(raised.value)
    assert str(tmp_path) in str(raised.value)


# ---- fingerprint ----


def test_fingerprint_ignores_place_and_dates_and_sees_every_change(tmp_path):
    a, b = write_model(tmp_path / "a"), write_model(tmp_path / "b")
    os.utime(b / "config.json", (1, 1))
    assert checkpoint.fingerprint(a) == checkpoint.fingerprint(b)
    seen = {checkpoint.fingerprint(a)}
    write_safetensors(b / "model.safetensors", trunk(), seed=1)
    seen.add(checkpoint.fingerprint(b))
    write_json(b / "tokenizer.json", tokenizer_json(special=("<stop>",)))
    seen.add(checkpoint.fingerprint(b))
    write_json(b / "config.json", {**LLAMA, "rope_theta": 1})
    seen.add(checkpoint.fingerprint(b))
    assert len(seen) == 4


def test_config_with_infinity_is_real_and_read(tmp_path):
    write_model(tmp_path)
    text = json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]})
    (tmp_path / "config.json").write_text(text)
    assert read(tmp_path).hidden_size == 64
