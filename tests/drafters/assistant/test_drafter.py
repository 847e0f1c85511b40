"""What the loop can rely on: no state of its own, and tokens that the target has."""

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from fixtures import assistant_checkpoints as checkpoints
from fixtures import parity, zoo
from llm_specdec.checkpoint import Vocabulary, positions_of
from llm_specdec.drafters import recognise
from llm_specdec.drafters.assistant import drafter as assistant
from llm_specdec.drafters.common import shortlist
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.target import Target
from llm_specdec.errors import CheckpointError, PairingError
from tests.support.warm import Noting

PARTS = ("weight", "scales", "biases")


def folder_for(folder, **changes):
    raw = checkpoints.config(checkpoints.target_text("E4B"), **changes)
    return checkpoints.save(folder, raw, checkpoints.weights(raw))


def proposed(drafter, target, sampling=None, n=30):
    noting, cache = Noting(drafter), RollbackCache(target.model, max_draft=4)
    request = Request(parity.PROMPTS["long"], n, sampling=sampling or Sampling())
    run = Run(target, cache, noting, Fixed(4), request, PhaseTimer())
    return [token for part in run.tokens() for token in part], noting.proposed


def test_it_keeps_no_state_and_waits_for_a_hidden_state():
    drafter = parity.assistant(clusters=False)
    drafter.load_state([], [1, 2, 3])
    assert drafter.state() == [] and drafter.trims(3) and not drafter.ready()
    drafter.extend([4], {"final_norm": mx.zeros((1, 64))})
    assert drafter.ready()


@pytest.mark.parametrize("clusters", [False, True])
def test_greedy_drafts_are_the_same_the_short_way_and_the_long(clusters):
    """A row over the whole vocabulary is made only where something is drawn from it."""
    target = parity.target("gemma4")
    drafter = parity.assistant(clusters)
    nothing = Sampling(logit_bias={5: 0.0})  # asks for the whole row, and changes none
    assert proposed(drafter, target, nothing) == proposed(drafter, target)


def test_a_large_vocabulary_is_drafted_over_its_common_tokens(monkeypatch):
    monkeypatch.setattr(shortlist, "SMALL", 10)
    target = parity.target("gemma4")
    drafter = checkpoints.drafter_for(target, checkpoints.target_text("E4B"))
    rows = zoo.VOCAB // shortlist.PART
    monkeypatch.setattr(shortlist, "NEEDED", 0.0)
    for sampling in (Sampling(), Sampling(logit_bias={5: 0.0})):
        _, drafts = proposed(drafter, target, sampling)
        assert max(token for draft in drafts for token in draft) < rows


@pytest.mark.parametrize("clusters", [False, True])
def test_tokens_that_the_target_lacks_are_never_drafted(clusters):
    plain, size = parity.target("gemma4"), 40
    vocabulary = Vocabulary(zoo.VOCAB, size, (), (), (), positions_of(plain.config, {}))
    target = Target(plain.model, plain.config, vocabulary=vocabulary)
    text = checkpoints.target_text("E4B")
    drafter = checkpoints.drafter_for(target, text, clusters=clusters)
    for sampling in (Sampling(), Sampling(temperature=2.0)):
        _, drafts = proposed(drafter, target, sampling)
        assert max(token for draft in drafts for token in draft) < size


def test_stored_quantised_it_loads_as_it_is(tmp_path):
    """As MLX's converters store it, the matrix of clusters in more bits."""
    target, packed = parity.target("gemma4"), dict[str, np.ndarray]()
    raw = checkpoints.config(checkpoints.target_text("E4B"), clusters=True, hidden_size=64)
    for name, value in checkpoints.weights(raw).items():
        packed[name] = value
        if value.ndim == 2 and value.shape[-1] % 32 == 0:
            bits, module = 8 if "centroids" in name else 4, name.removesuffix("weight")
            parts = mx.quantize(mx.array(value), 32, bits)
            packed |= {f"{module}{n}": np.array(p) for n, p in zip(PARTS, parts, strict=True)}
    raw["quantization"] = {"bits": 4, "group_size": 32}
    folder = checkpoints.save(tmp_path, raw, packed)
    stored = recognise.read(folder).quantisation
    assert stored and stored.bits == 4
    drafter = assistant.load(folder, target)
    weight, scales, biases = (mx.array(packed[f"pre_projection.{part}"]) for part in PARTS)
    matrix = mx.dequantize(weight, scales, biases, group_size=32, bits=4)
    pair = mx.random.normal((1, 128))
    assert mx.allclose(drafter.model.pre_projection(pair), pair @ matrix.T, atol=1e-4)
    assert drafter.model.centroids.bits == 8
    held = sum(value.nbytes for value in dict(tree_flatten(drafter.model)).values())
    assert held < 1.1 * sum(value.nbytes for value in packed.values())  # nothing twice
    assert any(proposed(drafter, target)[1])
    with pytest.raises(CheckpointError, match="quantised already"):
        assistant.load(folder, target, bits=4)


def test_bits_quantise_all_matrices_but_the_one_of_the_clusters(tmp_path):
    target = parity.target("gemma4")
    folder = folder_for(tmp_path / "whole", clusters=True, hidden_size=64)
    model = assistant.load(folder, target, bits=4, group_size=32).model
    assert model.output["weight"].dtype == model.pre_projection["weight"].dtype == mx.uint32
    assert model.centroids["weight"].dtype == mx.float32


def test_a_damaged_order_of_tokens_is_refused(tmp_path):
    raw = checkpoints.config(checkpoints.target_text("E4B"), clusters=True)
    held = checkpoints.weights(raw)
    held["masked_embedding.token_ordering"][0] = held["masked_embedding.token_ordering"][1]
    folder = checkpoints.save(tmp_path, raw, held)
    with pytest.raises(CheckpointError, match="token_ordering"):
        assistant.load(folder, parity.target("gemma4"))


def test_a_target_that_it_cannot_read_is_refused(tmp_path):
    folder = folder_for(tmp_path)
    with pytest.raises(PairingError, match="of a Gemma 4"):
        assistant.load(folder, parity.target("llama"))
