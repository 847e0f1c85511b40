"""What an assistant's files say: recognised, refused by the key, and whether a target suits it."""

import json

import pytest

from fixtures import assistant_checkpoints as checkpoints
from fixtures import zoo
from llm_specdec.drafters import fit, recognise
from llm_specdec.drafters.table import KINDS
from llm_specdec.errors import CheckpointError
from tests.support.checkpoints import write_model

KIND = KINDS["assistant"]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    return recognise.read(zoo.write("gemma4", folder, **checkpoints.target_config("31B")))


def written(folder, top=(), tensors=(), **changes):
    """An assistant for a 31B. top: changes beside the nested config; changes: in it."""
    raw = checkpoints.config(checkpoints.target_text("31B"), **changes)
    held = {**checkpoints.weights(raw), **dict(tensors)}
    return checkpoints.save(folder / "assistant", {**raw, **dict(top)}, held)


@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize("clusters", [False, True])
def test_an_assistant_is_known_and_fits(tmp_path, target, clusters, unified):
    found = recognise.read(written(tmp_path, clusters=clusters, unified=unified))
    assert found.kind == "assistant"
    assert fit.mismatches(target, found) == []
    assert fit.recommend(target, found).kind == "assistant"
    assert fit.target_problems(found)
    told = KIND.inspected(found)["assistant"]
    assert told["target_hidden_size"] == 64
    assert told["drafts_from"] == (24 if clusters else 96)
    assert told["head_dims"] == {"sliding_attention": 32, "full_attention": 64}


def test_a_folder_without_a_config_word_is_known_by_its_tensors(tmp_path):
    assert recognise.kind_of(written(tmp_path, {"model_type": "something"})) == "assistant"


def test_of_clusters_only_the_rows_that_are_read_cost(tmp_path, target):
    found = recognise.read(written(tmp_path, clusters=True))
    cost = fit.draft_cost(target, found)
    left_out = 96 * checkpoints.HIDDEN * 4 * 3 // 4  # of 96 rows a quarter is read
    assert cost and cost.bytes_per_pass == found.pass_bytes - left_out


def test_heads_are_as_wide_as_their_norms_however_the_config_says_it(tmp_path, target):
    spelled = {"global_head_dim": 999, "per_layer_config": {"3": {"head_dim": 64}}}
    folder = written(tmp_path)
    raw = json.loads((folder / "config.json").read_text())
    raw["text_config"] |= spelled
    (folder / "config.json").write_text(json.dumps(raw))
    assert fit.mismatches(target, recognise.read(folder)) == []


@pytest.mark.parametrize(
    ("key", "top", "changes"),
    [
        ("hidden_size_per_layer_input", {}, {"hidden_size_per_layer_input": 16}),
        ("enable_moe_block", {}, {"enable_moe_block": True}),
        ("use_double_wide_mlp", {}, {"use_double_wide_mlp": True}),
        ("final_logit_softcapping", {}, {"final_logit_softcapping": 30.0}),
        ("hidden_activation", {}, {"hidden_activation": "silu"}),
        ("use_bidirectional_attention", {}, {"use_bidirectional_attention": "all"}),
        ("attention_bias", {}, {"attention_bias": True}),
        ("num_kv_shared_layers", {}, {"num_kv_shared_layers": 2}),
        ("layer_types", {}, {"layer_types": ["sliding_attention"] * 3 + ["linear"]}),
        ("layer_types", {}, {"layer_types": ["sliding_attention", "full_attention"] * 2}),
        ("rope_parameters", {}, {"rope_parameters": {"full_attention": {"rope_theta": 1}}}),
        ("tie_word_embeddings", {}, {"tie_word_embeddings": False}),
        ("use_ordered_embeddings", {"use_ordered_embeddings": True}, {}),
        ("backbone_hidden_size", {"backbone_hidden_size": 32}, {}),
        ("backbone_hidden_size", {"backbone_hidden_size": None}, {}),
        ("new_gate", {"new_gate": 2}, {}),
    ],
)
def test_a_key_that_asks_for_something_else_is_named(tmp_path, target, key, top, changes):
    raw = checkpoints.config(checkpoints.target_text("31B"))
    held = checkpoints.weights(raw)
    raw["text_config"] |= changes
    folder = checkpoints.save(tmp_path / "assistant", {**raw, **top}, held)
    found = recognise.read(folder)
    assert found.kind == "assistant"
    (said,) = fit.mismatches(target, found)
    assert key in said and "config.json" in said
    with pytest.raises(CheckpointError, match=key):
        KIND.check(folder)


def test_layers_with_keys_of_their_own_are_refused(tmp_path):
    raw = checkpoints.config(checkpoints.target_text("31B"))
    held = checkpoints.weights(raw)
    own = {"model.layers.0.self_attn.k_proj.weight": held["post_projection.weight"]}
    with pytest.raises(CheckpointError, match=r"k_proj.*keys of their own"):
        KIND.check(checkpoints.save(tmp_path / "assistant", raw, {**held, **own}))


def other_target(tmp_path, **changes):
    folder = tmp_path / "other"
    return recognise.read(
        zoo.write("gemma4", folder, **checkpoints.target_config("31B", **changes))
    )


@pytest.mark.parametrize(
    ("changes", "one", "two"),
    [
        ({"hidden_size": 96}, "64", "96"),
        ({"vocab_size": 128, "vocab_size_per_layer_input": 128}, "96", "128"),
        ({"global_head_dim": 32}, "64", "32"),
        ({"head_dim": 64}, "32", "64"),
        ({"sliding_window": 8}, "16", "8"),
        ({"layer_types": ["full_attention"] * 6}, "sliding_attention", "full_attention"),
        (
            {
                "rope_parameters": {
                    "full_attention": {"rope_theta": 5e5, "rope_type": "default"},
                    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
                }
            },
            "proportional with theta 1e+06",
            "default with theta 500000",
        ),
    ],
)
def test_what_differs_is_told_with_both_figures(tmp_path, changes, one, two):
    found = recognise.read(written(tmp_path))
    (said,) = fit.mismatches(other_target(tmp_path, **changes), found)
    first, _, second = said.partition(", the target")
    assert one in first and two in second


def test_another_family_is_refused(tmp_path):
    found = recognise.read(written(tmp_path))
    (said,) = fit.mismatches(recognise.read(write_model(tmp_path / "llama")), found)
    assert "Gemma 4" in said and "llama" in said
