"""A target's own answers to fixed prompts: the text on which readings of its states are tried."""

from collections.abc import Iterator
from typing import Any

from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request
from llm_specdec.engine.session import Session
from llm_specdec.errors import UsageError
from llm_specdec.prompting.rendering import Conversation, show
from llm_specdec.prompting.templates import template_text

PROMPTS = (
    "Explain in a few sentences how a bicycle stays upright.",
    "Write a Python function that returns the longest word of a sentence.",
)
LENGTH = 96  # tokens of the target's own answer to each prompt
MARGIN = 0.03  # by which the other reading must be better: about a standard error


def of(session: Session) -> Iterator[tuple[list[int], list[int]]]:
    """Each prompt with the greedy answer. Raises CheckpointError, UsageError."""
    for question in PROMPTS:
        prompt = _prompt(session.tokenizer, question)
        run = session.run(Request(prompt, LENGTH), PhaseTimer(), draft_tokens=0)
        yield prompt, [token for part in run.tokens() for token in part]


def _prompt(tokenizer: Any, question: str) -> list[int]:
    if not tokenizer.has_chat_template:
        return list(tokenizer.encode(question))
    asked = Conversation([{"role": "user", "content": question}])
    (shown,) = show(tokenizer, template_text(tokenizer), [asked], {})
    if isinstance(shown, UsageError):
        raise shown
    return shown.tokens()


def better(found: dict[str, float], usual: str) -> str:
    """The reading to keep: the layout's own unless another one is clearly better."""
    best = max(found, key=lambda reads: found[reads])
    return best if found[best] > found[usual] + MARGIN else usual
