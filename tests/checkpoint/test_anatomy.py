import json
import os
import struct
import sys

import pytest

from llm_specdec import checkpoint
from llm_specdec.drafters import mtp, recognise
from llm_specdec.errors import CheckpointError
from tests.support.checkpoints import (
    LLAMA,
    layer,
    quantise,
    qwen_head,
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
    assert found.native_context == 512


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


def test_nested_text_config_leaves_vision_out(tmp_path):
    text = {**LLAMA, "model_type": "qwen3_5_text", "max_position_embeddings": 4096}
    shapes = trunk(prefix="language_model.model.")
    vision = {"vision_tower.blocks.0.attn.qkv.weight": ("F16", (640, 64))}
    write_json(tmp_path / "config.json", {"model_type": "qwen3_5", "text_config": text})
    write_safetensors(tmp_path / "model.safetensors", shapes | vision)
    found = read(tmp_path)
    plain = read(write_model(tmp_path / "plain"))
    assert (found.hidden_size, found.native_context, len(found.caches)) == (64, 4096, 2)
    assert found.weight_bytes == plain.weight_bytes
    left = "text alone is read: its image or audio part stays on disk"
    assert (found.notes, plain.notes) == ((left,), ())


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
    from pathlib import Path

    drafters = Path(__file__).parents[2] / "fixtures" / "drafters"
    kinds = {name: recognise.kind_of(drafters / name) for name in ("dflash2", "model", "mtp")}
    assert kinds == {"dflash2": "dflash", "model": "target", "mtp": "mtp-sidecar"}
    dflash = read(drafters / "dflash2").parts["dflash"]
    assert (dflash.version, dflash.block_size, dflash.target_layer_ids) == (2, 8, (1, 14, 27))
    assert dflash.fused == 3 * 576


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
