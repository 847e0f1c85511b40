import threading

import mlx.core as mx
import pytest

from llm_specdec.engine import session
from llm_specdec.engine import target as targets
from llm_specdec.engine.phases import Meter
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import TargetCache
from tests import zoo


@pytest.mark.parametrize("kind", ["llama3", "yarn"])
def test_a_target_loaded_by_one_thread_runs_on_another(tmp_path, kind):
    """Scaled rope frequencies are no parameters; lazy ones are tied to the loading thread."""
    scaling = {"rope_type": kind, "factor": 8.0, "original_max_position_embeddings": 64}
    zoo.write("llama", tmp_path, rope_scaling=scaling)
    target = targets.load(tmp_path)
    found = []

    def run():
        logits = target.forward(mx.array([1, 2, 3]), TargetCache(target.model))
        mx.eval(logits)
        found.append(logits.shape)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(3, zoo.VOCAB)]
