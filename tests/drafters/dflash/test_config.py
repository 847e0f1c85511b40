"""Reading a drafter's config: every field is used, known to be harmless, or refused."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fixtures.dflash_checkpoints import CONFIG, config
from llm_specdec.drafters.dflash.config import read
from llm_specdec.errors import CheckpointError


@pytest.fixture
def reading(tmp_path):
    def read_it(raw):
        (tmp_path / "config.json").write_text(json.dumps(raw))
        return read(tmp_path)

    return read_it


def test_fields_inside_dflash_config_win_over_the_top_level(reading):
    raw = config()
    del raw["dflash_config"]["block_size"]
    assert reading(raw).block_size == 16
    assert reading({**raw, "block_size": 8}).block_size == 8
    assert reading({**config(), "block_size": 8}).block_size == 6


def test_softcap_is_read_from_either_place(reading):
    assert reading(config(final_logit_softcapping=30.0)).softcap == 30.0
    raw = config()
    raw["dflash_config"]["final_logit_softcapping"] = 20.0
    assert reading(raw).softcap == 20.0


def test_rope_theta_is_read_from_rope_parameters(reading):
    raw = config(rope_parameters={"rope_type": "default", "rope_theta": 5e6})
    del raw["rope_theta"]
    assert {rope.theta for rope in reading(raw).ropes} == {5e6}


def test_a_block_is_causal_where_the_layer_slides_unless_the_config_says(reading):
    mixed: dict[str, Any] = {
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 64,
    }
    assert reading(config(**mixed)).causal == (True, False)
    assert reading(config(**mixed, is_causal=False)).causal == (False, False)
    assert reading(config(**mixed, is_causal=True)).causal == (True, True)


def test_context_is_bounded_only_where_every_layer_slides(reading):
    both = config(layer_types=["sliding_attention"] * 2, sliding_window=64)
    one = config(layer_types=["sliding_attention", "full_attention"], sliding_window=64)
    assert reading(both).context_kept == 63
    assert reading(one).context_kept is None
    assert reading(config(sliding_window=64)).context_kept is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["chunked_attention"] * 2}, "chunked_attention"),
        ({"layer_types": ["sliding_attention"] * 2}, "sliding_window"),
        ({"use_sliding_window": True}, "layer_types"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "spiral"),
        ({"num_key_value_heads": 3}, "3 key/value heads"),
        ({"hidden_size": "many"}, "hidden_size"),
        ({"target_hidden_size": 64}, "64"),
        ({"target_layer_ids": []}, "target_layer_ids"),
        ({"target_layer_ids": [-2]}, "-2"),
        ({"mask_token_id": None}, "mask_token_id"),
        ({"dflash_query_causal": True}, "dflash_query_causal"),
        ({"attention_sink_bias": True}, "attention_sink_bias"),
        ({"projector_type": "domino"}, "projector_type"),
        ({"quantization_config": {"quant_method": "awq"}}, "16-bit"),
        ({"conv_kernel_size": 3}, "conv_kernel_size"),
        ({"dflash_config": None}, "dflash_config"),
    ],
)
def test_what_would_change_the_computation_is_refused_by_name(reading, changes, named):
    with pytest.raises(CheckpointError, match=named) as error:
        reading(config(**changes))
    assert "\n" not in str(error.value)


def test_unknown_fields_inside_dflash_config_are_refused(reading):
    raw = config()
    raw["dflash_config"]["second_pass"] = 2
    with pytest.raises(CheckpointError, match="second_pass"):
        reading(raw)


def test_fields_without_meaning_for_the_computation_are_passed_over(reading):
    reading(
        config(
            transformers_version="5.0",
            auto_map={"AutoModel": "dflash.DFlashDraftModel"},
            sliding_window=4096,
            max_window_layers=6,
            attention_bias=False,
            hidden_act="silu",
            _name_or_path="x",
        )
    )


def test_the_speculators_packaging_reads_as_the_same_drafter(reading):
    inner = {key: value for key, value in CONFIG.items() if key not in ("dflash_config",)}
    inner["architectures"] = ["Qwen3ForCausalLM"]
    packed = {
        "architectures": ["DFlashSpeculator"],
        "speculators_model_type": "dflash",
        "speculators_version": "0.5",
        "speculators_config": {"algorithm": "dflash"},
        "transformer_layer_config": inner,
        "draft_vocab_size": 40,
        "block_size": 6,
        "mask_token_id": 5,
        "aux_hidden_state_layer_ids": [1, 3],
        "sliding_window_non_causal": False,
        "projector_type": "dflash",
        "emb_dim": 256,
    }
    assert reading(packed) == reading(config())


SLIDING: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 64,
}
SPECULATORS: dict[str, Any] = {
    "speculators_model_type": "dflash",
    "transformer_layer_config": {k: v for k, v in CONFIG.items() if k != "dflash_config"},
    "mask_token_id": 5,
    "aux_hidden_state_layer_ids": [0, 3],
}


def test_speculators_defaults_are_not_those_of_the_other_packaging(reading):
    found = reading(SPECULATORS)
    assert (found.block_size, found.longest, found.target_layer_ids) == (8, 7, (-1, 2))
    assert reading({**SPECULATORS, "sample_from_anchor": True}).longest == 8


@pytest.mark.parametrize(
    ("changes", "causal"),
    [
        ({}, True),
        ({"sliding_window_non_causal": True}, False),
        ({"speculators_model_type": "dflash2"}, False),
        ({"speculators_model_type": "dflash2", "sliding_window_non_causal": False}, True),
    ],
)
def test_a_sliding_block_of_speculators_is_causal_as_its_own_key_says(reading, changes, causal):
    layers = {**SPECULATORS["transformer_layer_config"], **SLIDING}
    second = {
        "conv_kernel_size": 3,
        "conv_group_size": 8,
        "selector_rank": 8,
        "selector_top_k": 4,
    }
    more = second if "speculators_model_type" in changes else {}
    found = reading({**SPECULATORS, "transformer_layer_config": layers, **more, **changes})
    assert found.causal == (causal, False)


def test_each_type_of_layer_may_have_a_rope_of_its_own(reading):
    ropes = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6},
    }
    raw = config(**SLIDING, rope_parameters=ropes)
    sliding, full = reading(raw).ropes
    assert (sliding.theta, full.theta, full.scaling["factor"]) == (1e4, 1e6, 2.0)
    del ropes["full_attention"]
    with pytest.raises(CheckpointError, match="full_attention"):
        reading(config(**SLIDING, rope_parameters=ropes))


def test_interleaved_rope_is_read_and_not_taken_for_an_unset_key(reading):
    assert {rope.traditional for rope in reading(config(rope_is_neox_style=False)).ropes} == {True}
    assert {rope.traditional for rope in reading(config()).ropes} == {False}


@example(key="num_hidden_layers", value=2**40)
@given(
    key=st.sampled_from([*CONFIG, "target_layer_ids", "mask_token_id", "block_size"]),
    value=st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()), st.just({})),
)
def test_damaged_fields_never_end_in_a_traceback(tmp_path_factory, key, value):
    raw = config(**{key: value})
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "config.json").write_text(json.dumps(raw))
    try:
        read(folder)
    except CheckpointError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_file_that_is_no_json_object_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read(tmp_path)
