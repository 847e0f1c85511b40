"""Whatever stands in the files, reading them ends in an anatomy or in one clear line."""

import json
import struct

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_specdec import checkpoint
from llm_specdec.drafters import fit, recognise
from llm_specdec.errors import CheckpointError
from tests.support.checkpoints import LLAMA, tokenizer_json, write_model

quick = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

KEYS = [
    *LLAMA, "text_config", "quantization", "quantization_config", "layer_types", "sliding_window",
    "sliding_window_pattern", "num_kv_shared_layers", "auto_map", "model_file", "dflash_config",
    "eos_token_id", "mtp_num_hidden_layers", "num_experts", "num_experts_per_tok", "torch_dtype",
    "chat_template", "hybrid_layer_pattern",
]  # fmt: skip
TYPES = ["llama", "gemma3_text", "exaone4", "gpt_oss", "mimo_v2_flash", "qwen3_5", "rwkv7"]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def looked_at(folder):
    try:
        found = recognise.read(folder)
        checkpoint.fingerprint(folder)
        return found, found.tokenizer, found.kv_bytes(1000), fit.recommend(found)
    except CheckpointError as error:
        assert "\n" not in str(error)
        return None


@quick
@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=4) | values, st.sampled_from(TYPES))
def test_any_config(tmp_path, config, model_type):
    write_model(tmp_path)
    if isinstance(config, dict):
        config = {**LLAMA, "model_type": model_type, **config}
    (tmp_path / "config.json").write_text(json.dumps(config))
    looked_at(tmp_path)


@quick
@given(
    st.binary(max_size=60)
    | st.dictionaries(
        st.text(max_size=8),
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("dtype", "shape", "data_offsets"), values)
        )
        | values,
        max_size=3,
    ),
    st.integers(-3, 3),
)
def test_any_safetensors_header(tmp_path, header, shift):
    write_model(tmp_path)
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = struct.pack("<Q", max(len(raw) + shift, 0))
    (tmp_path / "model.safetensors").write_bytes(length + raw + b"1234")
    looked_at(tmp_path)


@quick
@given(st.dictionaries(st.sampled_from([*tokenizer_json(), "added_tokens"]), values), values)
def test_any_tokenizer(tmp_path, tokenizer, settings_file):
    write_model(tmp_path / "a", tokenizer={**tokenizer_json(), **tokenizer})
    write_model(tmp_path / "b")
    (tmp_path / "a" / "tokenizer_config.json").write_text(json.dumps(settings_file))
    looked_at(tmp_path / "a")
    try:
        checkpoint.compare_tokenizers(tmp_path / "a", tmp_path / "b")
    except CheckpointError as error:
        assert "\n" not in str(error)
