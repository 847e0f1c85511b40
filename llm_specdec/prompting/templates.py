"""What a chat template is and reads, found in its text; it is never run here."""

import functools
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_specdec.errors import UsageError

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

EFFORT = "reasoning_effort"
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")  # of a message of the model
_TRANSFORMERS = "transformers.tokenization_utils_base"  # whose renderer takes a template
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


@functools.lru_cache(maxsize=4)
def read(text: str) -> Template:
    """Raises UsageError where the template is no Jinja."""
    from llm_specdec.prompting.sandbox import environment

    try:
        jinja = environment()
        tree = jinja.parse(text)
        names = _undeclared(jinja, tree)
    except Exception as error:  # of a stranger's text; nested too deeply, too, for example
        why = textwrap.shorten(str(error), 120, placeholder=" …")
        raise UsageError(f"the model's chat template cannot be read: {why}") from None
    return Template(
        frozenset(names - _GIVEN),
        _compared_with(tree, EFFORT),
        "<think" in text,
        "tools" in names,
        _reasoning_key(tree),
    )


def _undeclared(jinja: "Environment", tree: "nodes.Template") -> set[str]:
    """What jinja2's `meta.find_undeclared_variables` finds, no constant computed on the way."""
    from jinja2 import meta, nodes

    for node in tree.find_all(nodes.ScopedEvalContextModifier):
        node.options = []  # of {% autoescape %}
    finder = meta.TrackingCodeGenerator(jinja)
    finder.optimizer = None
    finder.visit(tree)
    return finder.undeclared_identifiers


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
    """The chat template; "" for a model without one, None where Python code takes its place.

    tools: for a conversation with tools, which have a template of their own in some models.
    """
    if _in_python(tokenizer):
        return None
    found = tokenizer.chat_template
    if isinstance(found, dict):  # several by name
        found = (tools and found.get("tool_use")) or found.get("default")
    if isinstance(found, str):
        return found
    return None if tokenizer.has_chat_template else ""


def _in_python(tokenizer: Any) -> bool:
    """Whether mlx-lm has a renderer of its own for this model, or its tokenizer's class has."""
    if getattr(tokenizer, "_chat_template", None) is not None:
        return True
    applied = getattr(type(getattr(tokenizer, "_tokenizer", None)), "apply_chat_template", None)
    return getattr(applied, "__module__", _TRANSFORMERS) != _TRANSFORMERS
