"""Published drafters that nothing here runs: named by their tensors, and what to take instead."""

import pytest

from llm_specdec.drafters import fit, recognise
from tests.support.checkpoints import layer, write_model

BLOCK = {
    "fc.weight": ("F16", (64, 128)),
    "hidden_norm.weight": ("F16", (64,)),
    "norm.weight": ("F16", (64,)),
    **layer("layers.0"),
}
SPARK = {**BLOCK, "markov_head.markov_w1.weight": ("F16", (100, 8))}
FORMATS = {
    "nvfp4": ({**SPARK, "fc.weight_scale_2": ("F32", (1,))}, {}, "16-bit"),
    "bonsai": ({**SPARK, "log_snr_embed.fc1.weight": ("F16", (64, 128))}, {}, "DFlash"),
    "sinks": (
        {**SPARK, "layers.0.self_attn.attention_sink_bias": ("F16", (4,))},
        {},
        "DFlash",
    ),
    "dflare": ({**BLOCK, "layers.0.self_attn.k_proj_target.weight": ("F16", (32, 64))}, {}, "D"),
    "xpress": (BLOCK, {"speculators_model_type": "xpress"}, "DFlash"),
    "p-eagle": (
        {**BLOCK, "mask_hidden": ("F16", (1, 1, 192))},
        {"speculators_model_type": "peagle"},
        "EAGLE-3",
    ),
    "eagle": ({"fc.weight": ("F16", (64, 128)), **layer("layers.0")}, {}, "EAGLE-3"),
    "medusa": (
        {"0.0.linear.weight": ("F16", (64, 64)), "0.1.weight": ("F16", (100, 64))},
        {},
        "another kind",
    ),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_foreign_drafter_is_named_and_something_else_advised(tmp_path, kind):
    shapes, config, instead = FORMATS[kind]
    made_for = {"speculators_config": {"verifier": {"name_or_path": "meta-llama/Llama-3"}}}
    folder = write_model(tmp_path / "drafter", shapes=shapes, **config, **made_for)
    found = recognise.read(folder)
    assert found.kind == kind
    (said,) = fit.mismatches(recognise.read(write_model(tmp_path / "target")), found)
    assert "made for meta-llama/Llama-3" in said
    assert instead in said and "--drafter lookup" in said
    assert fit.target_problems(found)


def test_medusa_heads_need_no_config_of_a_model(tmp_path):
    shapes, _, _ = FORMATS["medusa"]
    folder = write_model(tmp_path / "heads", shapes=shapes)
    (folder / "config.json").write_text(
        '{"medusa_num_heads": 1, "base_model_name_or_path": "lmsys/vicuna-7b"}'
    )
    assert recognise.kind_of(folder) == "medusa"
