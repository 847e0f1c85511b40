"""A DSpark drafter whose bias is a table of successors: right wherever it is made so."""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from fixtures import dspark_checkpoints as checkpoints
from fixtures.dflash_checkpoints import save
from llm_specdec.drafters.dspark import drafter as dspark
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.target import load
from tests.support import chains

WORDS = [f" w{i}" for i in range(20)]
K = 4


@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
@pytest.mark.parametrize("wrong", [[], [3], [4, 9, 10], [*range(1, 20)]])
def test_drafts_are_kept_up_to_the_first_that_is_made_wrong(tmp_path, wrong, kind):
    target = load(chains.write(tmp_path / "target", [WORDS], chains.template({}, WORDS[0])))
    text = [target.tokenizer.convert_tokens_to_ids(word) for word in WORDS]
    known = {a: b for i, (a, b) in enumerate(pairwise(text), 1) if i not in wrong}
    drafter = dspark.load(disguised(tmp_path / "drafter", target, known, kind), target)
    cache = RollbackCache(target.model, max_draft=K)
    request = Request(text[:1], len(text) - 1)
    run = Run(target, cache, drafter, Fixed(K), request, PhaseTimer())
    assert [token for part in run.tokens() for token in part] == text[1:]
    assert run.stats.accepted == kept(len(text) - 1, wrong)


def kept(last: int, wrong: list[int]) -> int:
    """Drafts kept of a text whose token 0 is the prompt; the first round follows token 1, which
    the prompt's pass gives."""
    at, found = 1, 0
    while at < last:
        most = min(K, last - at - 1)
        right = next((i for i in range(most) if at + 1 + i in wrong), most)
        found, at = found + right, at + right + 1
    return found


def disguised(folder, target, known, kind):
    """Layers that add nothing, and a bias that outweighs all logits."""
    width, vocab = target.embed(mx.array([0])).shape[-1], target.vocab_size
    raw = checkpoints.config(
        hidden_size=width,
        vocab_size=vocab,
        markov_rank=vocab,
        markov_head_type=kind,
        enable_confidence_head=False,
        target_layer_ids=[0],
        num_attention_heads=2,
    )
    tensors = {name: value * 0 for name, value in checkpoints.weights(raw).items()}
    tensors["markov_head.markov_w1.weight"] = np.eye(vocab, dtype=np.float32)
    for before, after in known.items():
        tensors["markov_head.markov_w2.weight"][after, before] = 1e4
    if kind == "rnn":  # its output part reads the token before, and nothing else
        tensors["markov_head.joint_proj.weight"][2 * vocab :, vocab : 2 * vocab] = np.eye(vocab)
    return save(folder, raw, tensors)
