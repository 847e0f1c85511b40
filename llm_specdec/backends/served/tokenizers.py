"""What the tokenizer of a served model tells before the server is asked: how long a prompt is,
and in which words its chat template takes thinking. `add --tokenizer` names one."""

from pathlib import Path
from typing import Any

from llm_specdec import hub
from llm_specdec.backends.events import Request
from llm_specdec.backends.planning import Plan
from llm_specdec.checkpoint.tokenizer import chat_template
from llm_specdec.errors import CheckpointError, UsageError
from llm_specdec.prompting import chat
from llm_specdec.prompting.thinking import template_arguments

OWN_FILES = ("tokenizer.*", "vocab.*", "*.model", "*.tiktoken")
FILES = tuple(name for name in hub.MODEL_FILES if name not in ("*.safetensors", "README.md"))


def load(named: str) -> Any:
    """The tokenizer of a folder or repository, from files that are here. Raises HubError,
    CheckpointError."""
    from llm_specdec.backends.local import tokenizers
    from llm_specdec.engine.tokenizer import of_files

    folder = _folder(named)
    if not any(any(folder.glob(name)) for name in OWN_FILES):
        raise CheckpointError(
            f"{folder} holds no tokenizer: name the model's own folder or repository"
        )
    tokenizers.restore(folder)
    found = of_files(folder)
    tokenizers.keep(folder)
    return found


def counted(plan: Plan, request: Request) -> int | None:
    """Tokens of the prompt, where a context is set to keep to. Raises SpecdecError."""
    assert plan.served
    if not (plan.served.tokenizer and plan.settings["context"]):
        return None
    if any(message.get("images") for message in request.messages):
        raise UsageError(
            f"context {plan.settings['context']} ({plan.sources['context']}): how many tokens a "
            "picture has is not known here: unset it"
        )
    return prompt_tokens(plan, request)


def prompt_tokens(plan: Plan, request: Request) -> int:
    """Raises SpecdecError."""
    assert plan.served and plan.served.tokenizer
    tokenizer = load(plan.served.tokenizer)
    return len(chat.render(tokenizer, request.messages, plan.settings, request.tools).tokens)


def differ(named: str, here: int, there: int) -> str:
    """here, there: tokens of one prompt, as it is counted."""
    return (
        f"the server counts {there} tokens in a prompt in which the tokenizer of "
        f"{named} counts {here}: is it this model's, with the same chat template?"
    )


def template_words(plan: Plan) -> dict[str, Any]:
    """thinking and chat_template_kwargs as the model's own template has them. Raises UsageError
    for what it does not know."""
    assert plan.served and plan.served.tokenizer
    text = (
        chat_template(_folder(plan.served.tokenizer)) or None
    )  # without one, Python code takes its place
    values = plan.settings
    return template_arguments(text, values["thinking"], values["chat_template_kwargs"])


def _folder(named: str) -> Path:
    return hub.locate(named, offline=True, files=FILES).absolute()
