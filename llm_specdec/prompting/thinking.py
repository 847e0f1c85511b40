"""The thinking setting → the arguments that a chat template really has.

Templates name their switch as they like: `enable_thinking`, `thinking`, `reasoning_effort`,
`thinking_budget`. Which of these one reads is looked up in the template itself, so that a
setting that it would ignore is an error and not a silent nothing.
"""

from collections.abc import Mapping
from typing import Any

from llm_specdec.errors import UsageError
from llm_specdec.prompting.templates import EFFORT, Template, read

SWITCHES = ("enable_thinking", "thinking")  # true or false
BUDGET = "thinking_budget"
EFFORTS = ("low", "medium", "high")  # where a template takes any word, what models were taught


def template_arguments(
    text: str | None, thinking: str | None, extra: Mapping[str, Any], budget: int | None = None
) -> dict[str, Any]:
    """What to hand to the chat template for `thinking` (on, off, an effort or None: its own
    default), `chat_template_kwargs` and `thinking_budget`, which the engine keeps to; a template
    that can tell the model of it does.

    text: the template; None where mlx-lm renders in Python, which takes enable_thinking.
    Raises UsageError for what the template does not know.
    """
    if thinking is None and not extra and budget is None:
        return {}
    if text is None:
        return {**_for_renderer(thinking), **extra}
    template = read(text)
    for name in extra:
        if name not in template.arguments:
            known = ", ".join(sorted(template.arguments)) or "none"
            raise UsageError(f"the chat template has no argument {name!r}: it has {known}")
    told = {} if budget is None or BUDGET not in template.arguments else {BUDGET: budget}
    return {**told, **_for_template(template, thinking), **extra}


def _for_renderer(thinking: str | None) -> dict[str, Any]:
    if thinking not in (None, "on", "off"):
        raise UsageError(f"this model knows no thinking effort {thinking!r}: set on or off")
    return {} if thinking is None else {"enable_thinking": thinking == "on"}


def _for_template(template: Template, thinking: str | None) -> dict[str, Any]:
    switch = next((name for name in SWITCHES if name in template.arguments), None)
    if thinking is None:
        return {}
    if thinking == "on":
        return _on(template, switch)
    if thinking == "off":
        return _off(template, switch)
    return _effort(template, switch, thinking)


def _on(template: Template, switch: str | None) -> dict[str, Any]:
    if switch:
        return {switch: True}
    if template.thinks or {EFFORT, BUDGET} & template.arguments:
        return {}
    raise UsageError("this model's chat template knows no thinking: unset thinking, or set it off")


def _off(template: Template, switch: str | None) -> dict[str, Any]:
    if switch:
        return {switch: False}
    if BUDGET in template.arguments:
        return {BUDGET: 0}
    if EFFORT in template.arguments and "none" in template.efforts:
        return {EFFORT: "none"}
    if EFFORT in template.arguments:
        raise UsageError(f"this model always thinks: set thinking to {_words(template)}")
    if template.thinks:
        raise UsageError("this model's chat template cannot switch thinking off: unset thinking")
    return {}


def _effort(template: Template, switch: str | None, word: str) -> dict[str, Any]:
    if EFFORT not in template.arguments:
        raise UsageError(f"the chat template knows no thinking effort {word!r}: set on or off")
    if word not in (template.efforts or EFFORTS):
        raise UsageError(f"thinking must be {_words(template)} for this model, not {word!r}")
    return {EFFORT: word} | ({switch: True} if switch else {})


def _words(template: Template) -> str:
    return " or ".join(template.efforts or EFFORTS)
