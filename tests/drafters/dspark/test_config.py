"""Four packagings of one drafter, and what is refused by name."""

import json

import pytest

from fixtures import dspark_checkpoints as checkpoints
from fixtures.dflash_checkpoints import save
from llm_specdec.drafters import recognise
from llm_specdec.drafters.dspark.config import read
from llm_specdec.errors import CheckpointError


@pytest.fixture
def reading(tmp_path):
    def read_it(raw):
        (tmp_path / "config.json").write_text(json.dumps(raw))
        return read(tmp_path)

    return read_it


def nested(raw, *keys, **more):
    """The same with some keys in `dflash_config`."""
    outer = {key: value for key, value in raw.items() if key not in keys}
    return {**outer, "dflash_config": {**{key: raw[key] for key in keys}, **more}}


PACKAGINGS = {
    "speculators": checkpoints.packed(),
    "SpecForge": nested(
        checkpoints.config(), "target_layer_ids", "mask_token_id", projector_type="dspark"
    ),
    "LiquidAI": {
        **nested(checkpoints.config(), "target_layer_ids", "mask_token_id", "num_target_layers"),
        "architectures": ["Lfm2DSparkDraftModel"],
    },
}


@pytest.mark.parametrize("name", PACKAGINGS)
def test_every_packaging_reads_as_the_same_drafter(reading, name):
    assert reading(PACKAGINGS[name]) == reading(checkpoints.config())


@pytest.mark.parametrize(
    ("raw", "longest"),
    [
        (checkpoints.config(), 6),
        (checkpoints.packed(), 6),
        (checkpoints.packed(sample_from_anchor=False), 5),
        (checkpoints.packed(sample_from_anchor=True), 6),
        *(
            (
                checkpoints.packed(
                    speculators_config={"proposal_methods": [{"speculative_tokens": tokens}]}
                ),
                tokens,
            )
            for tokens in (5, 6)
        ),
    ],
)
def test_the_pending_tokens_row_predicts_where_the_file_says_so(tmp_path, reading, raw, longest):
    assert reading(raw).block.longest == longest
    flat = checkpoints.config()
    found = recognise.read(save(tmp_path / "d", raw, checkpoints.weights(flat)))
    assert (found.kind, found.parts["dspark"].longest) == ("dspark", longest)
    assert "dflash" not in found.parts


def test_a_partial_rotation_copied_from_the_target_is_no_part_of_the_drafter(reading):
    ropes = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
    found = reading(checkpoints.config(rope_parameters=ropes, partial_rotary_factor=0.25))
    assert found.block.ropes[0].scaling == {"rope_type": "default", "rope_theta": 10000.0}


def test_what_was_copied_from_the_target_changes_nothing(reading):
    copied = {
        "layer_types": ["linear_attention", "full_attention"] * 12,
        "full_attention_interval": 2,
        "linear_num_value_heads": 16,
        "attn_output_gate": True,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "router_aux_loss_coef": 0.001,
    }
    assert reading(checkpoints.config(**copied)) == reading(checkpoints.config())


def test_a_body_of_gemmas_layers_is_all_full_attention(reading):
    found = reading(checkpoints.gemma())
    block = found.block
    assert (found.gemma, found.values_are_keys) == (True, True)
    assert (block.head_dim, block.kv_heads, block.windows) == (32, 1, (None, None))
    assert (block.softcap, block.embedding_scale) == (3.0, 32**0.5)
    assert block.ropes[1].scaling["partial_rotary_factor"] == 0.25
    own = reading(checkpoints.gemma(attention_k_eq_v=False))
    assert (own.values_are_keys, own.block.kv_heads) == (False, 2)


def test_what_gemmas_config_leaves_out_is_as_deepspec_has_it(reading):
    left_out = ("attention_k_eq_v", "global_head_dim", "num_global_key_value_heads")
    raw = checkpoints.gemma()
    short = {
        key: value
        for key, value in raw.items()
        if key not in (*left_out, "final_logit_softcapping", "rope_parameters")
    }
    found = reading(short)
    rope = found.block.ropes[0]
    assert found.values_are_keys
    assert (found.block.head_dim, found.block.kv_heads, found.block.softcap) == (512, 1, 30.0)
    assert (rope.theta, dict(rope.scaling)["rope_type"]) == (1e6, "proportional")


def test_a_body_in_qwens_own_style_turns_a_part_of_each_head(reading):
    found = reading(checkpoints.gated())
    assert (found.gated, found.gains_less_one) == (True, True)
    assert [rope.dims for rope in found.block.ropes] == [4, 4]
    stock = reading(checkpoints.config())
    assert (stock.gated, stock.gains_less_one, stock.block.ropes[0].dims) == (False, False, None)


@pytest.mark.parametrize("changes", [{"hidden_activation": "relu"}, {"attention_bias": True}])
def test_a_body_of_gemmas_layers_that_differs_is_refused_by_name(reading, changes):
    with pytest.raises(CheckpointError, match=next(iter(changes))):
        reading(checkpoints.gemma(**changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"markov_head_type": "lstm"}, "lstm"),
        ({"markov_rank": 0}, "markov_rank"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"log_snr_conditioning": True}, "log_snr_conditioning"),
        ({"dflash_query_causal": True}, "dflash_query_causal"),
        ({"attention_sink_bias": True}, "attention_sink_bias"),
        ({"quantization_config": {"quant_method": "modelopt"}}, "16-bit"),
        ({"dflash_config": {"projector_type": "dflash"}}, "projector_type"),
    ],
)
def test_what_would_change_the_computation_is_refused_by_name(reading, changes, named):
    with pytest.raises(CheckpointError, match=named) as error:
        reading(checkpoints.config(**changes))
    assert "\n" not in str(error.value)
