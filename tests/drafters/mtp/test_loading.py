"""A head is found and loaded whatever its publisher calls its tensors and wherever they lie."""

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from fixtures import heads, zoo
from llm_specdec.drafters.common.language_model import load
from llm_specdec.drafters.mtp.head import build
from llm_specdec.drafters.mtp.loading import load_head
from llm_specdec.engine.target import Target
from llm_specdec.errors import CheckpointError, UnsupportedError
from tests.support.heads import outputs


@pytest.mark.parametrize("name", heads.CASES)
def test_the_stored_head_comes_back(name, tmp_path):
    case = heads.CASES[name]
    expected = outputs(heads.write(case, tmp_path / "target"))
    drafter = load_head(tmp_path / "target", load(tmp_path / "target"))
    assert mx.allclose(outputs(drafter.head), expected, atol=1e-4)


@pytest.mark.parametrize("name", heads.CASES)
def test_the_target_loads_as_without_its_head(name, tmp_path):
    case = heads.CASES[name]
    heads.write(case, tmp_path / "target")
    loaded = dict(tree_flatten(load(tmp_path / "target").model.parameters()))
    built = dict(tree_flatten(zoo.build(case.family, **case.changes)[0].parameters()))
    assert loaded.keys() == built.keys()
    assert all(mx.array_equal(loaded[key], built[key]) for key in built)


def test_a_16_bit_head_stays_16_bit_beside_a_4_bit_target(tmp_path):
    from mlx.nn.layers.quantized import quantize

    heads.write(heads.CASES["llama"], tmp_path / "target")
    model, config = zoo.build("llama")
    model.set_dtype(mx.bfloat16)
    quantize(model, group_size=32, bits=4)
    head = load_head(tmp_path / "target", Target(model, config)).head
    assert head.projection.weight.dtype == head.layer.mlp.up_proj.weight.dtype == mx.bfloat16
    assert "scales" not in head.layer.mlp.up_proj


def shifted(by):
    def change(weights):
        return {n: w + by if n.endswith("norm.weight") else w for n, w in weights.items()}

    return change


def test_gains_are_never_shifted_twice(tmp_path):
    plain = heads.Case("qwen3_5", heads.CASES["qwen3_5"].names)
    expected = outputs(heads.write(plain, tmp_path / "plain"))
    target = load(tmp_path / "plain")
    assert mx.allclose(outputs(load_head(tmp_path / "plain", target).head), expected, atol=1e-5)


def test_a_doubly_shifted_or_unshifted_head_would_be_another(tmp_path):
    """The negative control: the norms of these heads matter."""
    case = heads.CASES["qwen3_5"]
    head = heads.write(case, tmp_path / "target")
    expected = outputs(head)
    for by in (1.0, -1.0):
        wrong = heads.random_head(zoo.build("qwen3_5")[0])
        wrong.load_weights(list(shifted(by)(dict(tree_flatten(wrong.parameters()))).items()))
        assert not mx.allclose(outputs(wrong), expected, atol=0.1)


def test_one_low_norm_does_not_decide(tmp_path):
    """Norms before the projection settle near 0.4: by their mean they would look shifted."""
    case = heads.Case("qwen3_5", heads.CASES["qwen3_5"].names)
    head = heads.write(case, tmp_path / "target")
    loaded = load_head(tmp_path / "target", load(tmp_path / "target")).head
    assert mx.array_equal(loaded.hidden_norm.weight, head.hidden_norm.weight)
    assert float(loaded.hidden_norm.weight.mean()) < 0.5


def test_plain_gains_of_a_target_without_q_and_k_norms_stay(tmp_path):
    heads.write(heads.CASES["llama"], tmp_path / "target")
    shard = tmp_path / "target/model-00002-of-00002.safetensors"
    low = {n: w * 0.05 if n.endswith("norm.weight") else w for n, w in heads.read(shard).items()}
    mx.save_safetensors(str(shard), low)
    loaded = load_head(tmp_path / "target", load(tmp_path / "target")).head
    assert mx.array_equal(
        loaded.layer.input_layernorm.weight, low["mtp.layers.0.input_layernorm.weight"]
    )


@pytest.mark.parametrize("promise", [{}, {"mtp_num_hidden_layers": 1}])
def test_a_head_that_the_files_lack_is_an_error(promise, tmp_path):
    folder = zoo.write("llama", tmp_path / "target", **promise)
    said = "config promises one" if promise else "files hold none"
    with pytest.raises(CheckpointError, match=f"no prediction head: .*{said}"):
        load_head(folder, load(folder))


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("mtp.fc.weight", "fc.weight is missing"),
        ("mtp.layers.0.mlp.up_proj.weight", "layer.mlp.up_proj.weight is missing"),
    ],
)
def test_a_head_with_a_hole_is_an_error(lost, said, tmp_path):
    heads.write(heads.CASES["llama sidecar"], tmp_path / "target")
    rewrite(tmp_path / "target/mtp.safetensors", lambda tensors: tensors.pop(lost))
    with pytest.raises(CheckpointError, match=said):
        load_head(tmp_path / "target", load(tmp_path / "target"))


@pytest.mark.parametrize(
    ("name", "size", "said"),
    [
        ("mtp.norm.weight", 32, r"norm.weight has shape \(32,\), \(64,\) is needed"),
        ("mtp.layers.0.self_attn.q_proj.bias", 64, r"q_proj\.bias has no place"),
    ],
)
def test_a_tensor_that_does_not_fit_is_an_error(name, size, said, tmp_path):
    heads.write(heads.CASES["llama sidecar"], tmp_path / "target")
    rewrite(tmp_path / "target/mtp.safetensors", lambda t: t.update({name: mx.ones(size)}))
    with pytest.raises(CheckpointError, match=said):
        load_head(tmp_path / "target", load(tmp_path / "target"))


def test_a_target_without_attention_is_said(tmp_path):
    heads.write(heads.CASES["llama"], tmp_path / "target")
    target = Target(zoo.build("mamba2")[0], {})
    with pytest.raises(UnsupportedError, match="no attention layer"):
        load_head(tmp_path / "target", target)


def test_a_target_whose_layers_keep_an_index_too_is_said(monkeypatch):
    """DeepSeek-V3.2: sparse attention with keys of its own."""
    indexed = {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 8}
    monkeypatch.setitem(zoo.FAMILIES, "deepseek_v32", zoo.FAMILIES["deepseek_v3"] | indexed)
    with pytest.raises(UnsupportedError, match="keep more than keys and values"):
        build(zoo.build("deepseek_v32")[0], hidden_first=False)


def test_loading_leaves_mlx_lm_as_it_was(tmp_path):
    """Its own loader refuses or drops the same tensors afterwards as before."""
    from mlx_lm.utils import load_model

    def outcome():
        try:
            return type(load_model(folder)[0]).__qualname__
        except ValueError as error:
            return str(error)

    for name in ("llama", "qwen3_5"):
        folder = tmp_path / name
        heads.write(heads.CASES[name], folder)
        before = outcome()
        load_head(folder, load(folder))
        assert outcome() == before


def rewrite(path, change):
    tensors = heads.read(path)
    change(tensors)
    mx.save_safetensors(str(path), tensors)
