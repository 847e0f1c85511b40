"""The estimate against what mlx reports once the model is loaded and has run."""

import mlx.core as mx
import pytest
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model, save_config

from fixtures import zoo
from llm_specdec import memory
from llm_specdec.drafters import recognise

UNKNOWN = ("llama4",)  # its chunked caches are decided when loaded


def arrays(model):
    return dict(tree_flatten(model.parameters()))


def measured(folder, tokens):
    """Bytes of weights and caches after a prompt of that many tokens."""
    model = load_model(folder)[0]
    weights = sum(array.nbytes for array in arrays(model).values())
    cache = make_prompt_cache(model)
    mx.eval(model(mx.array([[5] * (tokens - 1)]), cache=cache))
    mx.eval(model(mx.array([[5]]), cache=cache))
    return weights, sum(kept.nbytes for kept in cache if not _is_empty(kept))


def _is_empty(kept):
    return getattr(kept, "keys", 0) is None


@pytest.mark.parametrize("family", [name for name in zoo.FAMILIES if name not in UNKNOWN])
def test_weights_and_caches_of_every_family_are_exact(family, tmp_path):
    folder = zoo.write(family, tmp_path)
    found = recognise.read(folder)
    assert (found.weight_bytes, found.kv_bytes(70)) == measured(folder, 70)


def quantised(folder, out):
    model, config = load_model(folder)
    quantize(model, group_size=32, bits=4)
    out.mkdir()
    mx.save_safetensors(str(out / "model.safetensors"), arrays(model))
    save_config({**config, "quantization": {"group_size": 32, "bits": 4}}, out / "config.json")
    return out


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_packed_weights_are_exact_too(family, tmp_path):
    folder = quantised(zoo.write(family, tmp_path / "plain"), tmp_path / "packed")
    found, plain = recognise.read(folder), recognise.read(tmp_path / "plain")
    assert (found.weight_bytes, found.kv_bytes(70)) == measured(folder, 70)
    assert found.parameters == plain.parameters
    assert found.quantisation
    assert found.quantisation.bits == 4


@pytest.mark.real
@pytest.mark.parametrize("pack", [False, True])
def test_smollm2_is_within_five_percent_of_active_memory(smollm2, tmp_path, pack):
    folder = smollm2 / "smollm2"
    if pack:
        folder = quantised(folder, tmp_path / "packed")
    need = memory.estimate(recognise.read(folder), None, 40)
    mx.clear_cache()
    before = mx.get_active_memory()
    model, _ = load_model(folder)
    cache = make_prompt_cache(model)
    mx.eval(model(mx.array([[5] * 40]), cache=cache)[:, -1])
    mx.eval([kept.state for kept in cache])
    assert need.total == pytest.approx(mx.get_active_memory() - before, rel=0.05)
