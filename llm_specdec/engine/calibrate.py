"""Try a target's own prediction head with the hidden states that it may read."""

from pathlib import Path
from typing import Any

from llm_specdec.drafters.mtp import MTPDrafter, calibration
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request
from llm_specdec.engine.session import Weights, load


def calibrate(target: Path) -> tuple[str, dict[str, float]]:
    """Which hidden states the target's own head should read, and its acceptance on the
    target's answers to fixed prompts for each choice ("final_norm", "last_layer").

    Raises: CheckpointError, UnsupportedError.
    """
    session = load(Weights(target, "mtp"))
    assert isinstance(session.drafter, MTPDrafter)
    found = []
    for question in calibration.PROMPTS:
        prompt = _prompt(session.tokenizer, question)
        run = session.run(Request(prompt, calibration.LENGTH), PhaseTimer(), draft_tokens=0)
        answer = [token for part in run.tokens() for token in part]
        found.append(calibration.acceptance(session.drafter, session.target, prompt, answer))
    means = {reads: sum(one[reads] for one in found) / len(found) for reads in calibration.READS}
    usual = "final_norm" if session.drafter.taps == ("final_norm",) else "last_layer"
    return calibration.better(means, usual), means


def _prompt(tokenizer: Any, question: str) -> list[int]:
    if not tokenizer.has_chat_template:
        return list(tokenizer.encode(question))
    messages = [{"role": "user", "content": question}]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True))
