"""SmolLM2 with its trained head: a fault in the wiring shows as a fraction of these figures."""

import json
from pathlib import Path

import mlx.core as mx
import pytest

from llm_specdec.backends.local import sessions
from llm_specdec.engine.drafter import Proposal
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.session import Weights
from llm_specdec.engine.taps import Taps

pytestmark = [pytest.mark.real, pytest.mark.slow]

FIXTURES = Path(__file__).parents[2] / "fixtures"
VALIDATION = json.loads((FIXTURES / "drafters/mtp/training.json").read_text())["validation"]
PROMPTS = [
    json.loads(line)["prompt"]
    for line in (FIXTURES / "cases/prompts.jsonl").read_text("utf-8").splitlines()
    if json.loads(line)["id"] in ("explain-1", "explain-5", "code-1", "code-2")
]


@pytest.fixture(scope="module")
def loaded(smollm2):
    return sessions.load(Weights(smollm2 / "smollm2-mtp", "mtp"))


def prompt_ids(loaded, text):
    message = [{"role": "user", "content": text}]
    return list(loaded.tokenizer.apply_chat_template(message, add_generation_prompt=True))


def decode(loaded, prompt, depth, tokens=64, sampling=None):
    request = Request(prompt, tokens, sampling=sampling or Sampling())
    run = loaded.run(request, PhaseTimer(), draft_tokens=depth)
    return [token for part in run.tokens() for token in part], run.stats


class Forced:
    """Goes on with the true tokens, whatever the head would have drawn."""

    plain = True

    def __init__(self, true):
        self.true, self.drawn = true, []

    def one(self, logits, drafted):
        self.drawn.append(mx.argmax(logits))
        return mx.array(self.true[len(drafted)], dtype=mx.int32)

    def block(self, logits):
        raise AssertionError("a head drafts one token at a time")

    def proposal(self, tokens):
        return Proposal(tokens)


def test_agreement_by_depth_is_near_what_training_measured(loaded):
    right, asked = [0, 0, 0], 0
    for text in PROMPTS:
        prompt = prompt_ids(loaded, text)
        tokens = prompt + decode(loaded, prompt, 0)[0]
        with Taps(loaded.target.model, ("final_norm",)) as taps:
            mx.eval(loaded.target.model(mx.array(tokens)[None]))
            hidden = taps.take()["final_norm"]
        drafter = loaded.drafter
        drafter.start(tokens[0])
        drafter.extend(tokens[1 : len(prompt)], {"final_norm": hidden[: len(prompt) - 1]})
        for at in range(len(prompt), len(tokens) - 3):
            drafter.extend([tokens[at]], {"final_norm": hidden[at - 1 : at]})
            forced = Forced(tokens[at + 1 : at + 4])
            drafter.propose(3, forced)
            said = [int(token.item()) for token in forced.drawn]
            right = [n + (said[i] == forced.true[i]) for i, n in enumerate(right)]
            asked += 1
    # Other prompts than those of training: about three quarters of its figures.
    for n, figure in zip(right, VALIDATION, strict=True):
        assert 0.65 * figure < n / asked < 1.2 * figure


def test_penalties_leave_the_lane_on_and_the_text_the_targets_own(loaded):
    sampling = Sampling(repetition_penalty=1.15)
    drafted = accepted = 0
    for text in PROMPTS[::2]:
        prompt = prompt_ids(loaded, text)
        alone, _ = decode(loaded, prompt, 0, sampling=sampling)
        tokens, stats = decode(loaded, prompt, 2, sampling=sampling)
        assert tokens == alone
        drafted += stats.drafted
        accepted += stats.accepted
    assert drafted > 60 and accepted > 0.1 * drafted
