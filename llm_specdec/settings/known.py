"""Which settings exist, and their values checked."""

from typing import Any, NamedTuple

from llm_specdec.errors import UsageError
from llm_specdec.settings.forms import (
    DURATION,
    FLAG,
    LOGIT_BIAS,
    OBJECT,
    TEXT,
    TEXTS,
    THINKING,
    Form,
    choice,
    integer,
    number,
)


class Setting(NamedTuple):
    form: Form
    default: Any
    help: str
    option: bool = True  # may be given with -o and stored by llm


# The order is the order of every table that lists settings.
SETTINGS: dict[str, Setting] = {
    "temperature": Setting(
        number(0, 5), 0.0, "randomness of sampling; 0 always takes the likeliest token"
    ),
    "top_p": Setting(
        number(0, 1, above=True),
        1.0,
        "draw from the likeliest tokens that together reach this probability; 1 is off",
    ),
    "top_k": Setting(integer(0, 1_000_000), 0, "draw from this many likeliest tokens; 0 is off"),
    "min_p": Setting(
        number(0, 1),
        0.0,
        "draw from tokens at least this likely, relative to the likeliest; 0 is off",
    ),
    "repetition_penalty": Setting(
        number(0, 10, above=True), 1.0, "divide logits of tokens already seen; 1 is off"
    ),
    "presence_penalty": Setting(
        number(-2, 2), 0.0, "subtract once from logits of tokens already seen; 0 is off"
    ),
    "frequency_penalty": Setting(
        number(-2, 2), 0.0, "subtract per occurrence from logits of tokens already seen; 0 is off"
    ),
    "penalty_scope": Setting(
        choice("card", "mlx"),
        "card",
        "what penalties count: card, the whole history; mlx, the last 20 tokens",
    ),
    "logit_bias": Setting(LOGIT_BIAS, {}, "add to the logits of these token ids"),
    "max_tokens": Setting(
        integer(1, 10_000_000),
        None,
        "longest answer in tokens; by default, what fits into the context",
    ),
    "stop": Setting(TEXTS, [], "end the answer before any of these texts"),
    "seed": Setting(integer(0, 2**63 - 1), None, "same seed, same text; random by default"),
    "context": Setting(
        integer(16, 100_000_000),
        None,
        "most tokens of prompt and answer; by default, what the model was made for",
    ),
    "kv_bits": Setting(choice(2, 3, 4, 5, 6, 8), None, "quantise the KV cache to this many bits"),
    "thinking": Setting(
        THINKING, None, "reasoning: on, off or an effort; by default, as the chat template has it"
    ),
    "thinking_budget": Setting(
        integer(0, 10_000_000), None, "most tokens of thinking, after which the answer must begin"
    ),
    "system": Setting(
        TEXT,
        "allow",
        "allow, forbid, or the text of a default system prompt",
        option=False,  # llm keeps the name for -s
    ),
    "chat_template_kwargs": Setting(OBJECT, {}, "more arguments for the chat template"),
    "draft": Setting(FLAG, True, "false runs the target alone"),
    "draft_tokens": Setting(integer(1, 64, "auto"), "auto", "tokens to draft per round"),
    "prefix_cache": Setting(
        FLAG, True, "reuse what an earlier prompt has in common; false reads everything again"
    ),
    "keep_alive": Setting(
        DURATION,
        None,
        "keep the model in memory for so long after an answer (10m, 1h, 0, forever); "
        "by default, as `llm specdec keep` says",
    ),
}


def find(name: str) -> Setting:
    """Raises UsageError, with the nearest name, where there is no such setting."""
    try:
        return SETTINGS[name]
    except KeyError:
        import difflib  # slow to import, and only a mistake needs it

        near = difflib.get_close_matches(name, SETTINGS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(SETTINGS)}"
        raise UsageError(f"unknown setting {name!r}: {hint}") from None


def check(name: str, value: object) -> Any:
    """The typed value as it will be used. Raises UsageError naming the allowed form."""
    form = find(name).form
    try:
        return form.check(value)
    except (ValueError, TypeError):
        raise UsageError(f"{name} must be {form.form}, not {value!r}") from None


def parse(name: str, text: str) -> Any:
    """The value that a command line or a stored option says. Raises UsageError."""
    form = find(name).form
    try:
        return form.parse(text)
    except (ValueError, TypeError, RecursionError):
        raise UsageError(f"{name} must be {form.form}, not {text!r}") from None
