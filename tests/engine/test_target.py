import json
import threading

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.backends.local import sessions
from llm_specdec.engine import target as targets
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.session import Weights
from llm_specdec.errors import UnsupportedError


def test_a_small_model_is_quantised_on_load_and_the_text_is_the_targets(tmp_path):
    zoo.write("llama", tmp_path)
    request = Request([3, 14, 15, 9], max_tokens=24)
    texts, packed = [], []
    for kind, bits in (("none", None), ("model", None), ("model", 4)):
        folder = None if kind == "none" else tmp_path
        loaded = sessions.load(Weights(tmp_path, kind, folder, bits, 32))
        run = loaded.run(request, PhaseTimer(), draft_tokens=3)
        texts.append([token for part in run.tokens() for token in part])
        packed.append(run.stats.accepted < run.stats.drafted)
    assert texts[0] == texts[1] == texts[2]
    # The target as its own drafter is always right, and four bits of it are another model.
    assert packed == [False, False, True]


@pytest.mark.parametrize("field", ["num_hidden_layers", "rms_norm_eps"])
def test_a_config_that_lacks_a_field_is_one_line(tmp_path, field):
    zoo.write("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config[field]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match=f"mlx-lm cannot load .*{field}"):
        targets.load(tmp_path)


def test_a_config_that_a_model_asserts_against_is_one_line(tmp_path):
    zoo.write("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": 0}))
    with pytest.raises(UnsupportedError, match="AssertionError"):
        targets.check(tmp_path)


def test_a_check_reads_no_weight(tmp_path):
    zoo.write("llama", tmp_path, vocab_size=50_000)
    size = (tmp_path / "model.safetensors").stat().st_size
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    targets.check(tmp_path)
    assert mx.get_peak_memory() - before < size / 100


@pytest.mark.parametrize("kind", ["llama3", "yarn"])
def test_a_target_loaded_by_one_thread_runs_on_another(tmp_path, kind):
    """Scaled rope frequencies are no parameters; lazy ones are tied to the loading thread."""
    scaling = {"rope_type": kind, "factor": 8.0, "original_max_position_embeddings": 64}
    if kind == "llama3":
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    zoo.write("llama", tmp_path, rope_scaling=scaling)
    target = targets.load(tmp_path)
    found = []

    def run():
        logits = target.forward(mx.array([1, 2, 3]), RollbackCache(target.model))
        mx.eval(logits)
        found.append(logits.shape)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(3, zoo.VOCAB)]
