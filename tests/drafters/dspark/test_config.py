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


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"markov_head_type": "lstm"}, "lstm"),
        ({"markov_rank": 0}, "markov_rank"),
        ({"architectures": ["Gemma4DSparkModel"]}, "Gemma 4"),
        ({"architectures": ["Qwen35DSparkModel"]}, r"Qwen3\.5"),
        ({"enable_qwen35_gated_q_proj": True}, "enable_qwen35_gated_q_proj"),
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
