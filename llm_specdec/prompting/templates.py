"""What a chat template is and reads, found in its text; it is never run here."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_specdec.errors import UsageError

if TYPE_CHECKING:
    from jinja2 import nodes

EFFORT = "reasoning_effort"
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")  # of a message of the model
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")  # transformers' own tag
_GIVEN = {
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message",
    "bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token",
    "raise_exception", "strftime_now", "namespace", "range", "dict", "lipsum", "cycler", "joiner",
}  # fmt: skip


@dataclass(frozen=True)
class Template:
    """What a chat template reads beside the conversation; efforts: the words it compares."""

    arguments: frozenset[str]
    efforts: tuple[str, ...]
    thinks: bool  # it speaks of thinking, switch or not
    tools: bool = False  # it has a place for tools
    reasoning: str | None = None  # key under which it takes the thinking of earlier turns


def read(text: str) -> Template:
    """Raises UsageError where the template is no Jinja."""
    import jinja2
    from jinja2 import meta

    environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"])  # never rendered
    try:
        tree = environment.parse(_GENERATION.sub("", text))
        efforts = _compared_with(tree, EFFORT)  # first: what follows folds constants in place
        reasoning = _reasoning_key(tree)
        names = meta.find_undeclared_variables(tree)
    except jinja2.TemplateError as error:
        raise UsageError(f"the model's chat template cannot be read: {error}") from None
    return Template(
        frozenset(names - _GIVEN), efforts, "<think" in text, "tools" in names, reasoning
    )


def _compared_with(tree: "nodes.Template", name: str) -> tuple[str, ...]:
    """The words that a template compares a variable with."""
    from jinja2 import nodes

    words: dict[str, None] = {}
    for comparison in tree.find_all(nodes.Compare):
        if any(found.name == name for found in comparison.find_all(nodes.Name)):
            constants = (constant.value for constant in comparison.find_all(nodes.Const))
            words |= dict.fromkeys(word for word in constants if isinstance(word, str))
    return tuple(words)


def _reasoning_key(tree: "nodes.Template") -> str | None:
    from jinja2 import nodes

    read = {node.attr for node in tree.find_all(nodes.Getattr)}
    read |= {
        node.arg.value for node in tree.find_all(nodes.Getitem) if isinstance(node.arg, nodes.Const)
    }
    return next((key for key in REASONING_KEYS if key in read), None)


def template_text(tokenizer: Any, tools: bool = False) -> str | None:
    """The chat template; "" for a model without one, None where mlx-lm renders in Python.

    tools: for a conversation with tools, which have a template of their own in some models.
    """
    found = tokenizer.chat_template
    if isinstance(found, dict):  # several by name
        found = (tools and found.get("tool_use")) or found.get("default")
    if isinstance(found, str):
        return found
    return None if tokenizer.has_chat_template else ""
