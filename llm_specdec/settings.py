"""Settings: which exist, what they may be, and which layer gave the one in effect."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from llm_specdec.errors import UsageError

if TYPE_CHECKING:
    from llm_specdec.registry import Pairing

# Lowest to highest; `explain` and every message use these words.
LAYERS = ("built-in", "base card", "card", "pairing", "profile", "stored option", "-o")


class Form(Protocol):
    """What a value may be. `check` takes a typed value, `parse` a command line's text."""

    form: str

    def check(self, value: object) -> Any: ...

    def parse(self, text: str) -> Any: ...


class Number:
    def __init__(self, low: float, high: float, *, above: bool = False) -> None:
        self.low, self.high, self.above = low, high, above
        self.form = f"a number from {low} to {high}"
        if above:
            self.form = f"a number above {low}, at most {high}"

    def check(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        fits = self.low < value <= self.high if self.above else self.low <= value <= self.high
        if not fits or not math.isfinite(value):
            raise ValueError
        return float(value)

    def parse(self, text: str) -> float:
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
            raise ValueError
        return self.check(float(text))


class Integer:
    """A whole number; `words` are allowed beside it."""

    def __init__(self, low: int, high: int, *words: str) -> None:
        self.low, self.high, self.words = low, high, words
        self.form = " or ".join([*words, f"a whole number from {low} to {high}"])

    def check(self, value: object) -> int | str:
        if isinstance(value, str) and value in self.words:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        if not self.low <= value <= self.high:
            raise ValueError
        return value

    def parse(self, text: str) -> int | str:
        if text in self.words:
            return text
        if not re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII):
            raise ValueError
        return self.check(int(text))


class Choice:
    def __init__(self, *options: str | int) -> None:
        self.options = options
        *most, last = map(str, options)
        self.form = f"{', '.join(most)} or {last}"

    def check(self, value: object) -> str | int:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError
        if value not in self.options:
            raise ValueError
        return value

    def parse(self, text: str) -> str | int:
        for option in self.options:
            if str(option) == text:
                return option
        raise ValueError


class Flag:
    form = "true or false"
    words: Mapping[str, bool] = {"true": True, "on": True, "false": False, "off": False}

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    def parse(self, text: str) -> bool:
        if text.lower() not in self.words:
            raise ValueError
        return self.words[text.lower()]


class Text:
    def __init__(
        self, form: str = "a text that is not empty", pattern: str = r"(?s).*\S.*"
    ) -> None:
        self.form, self.pattern = form, pattern

    def check(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise ValueError
        return value

    def parse(self, text: str) -> str:
        return self.check(text)


class Size:
    """A number of bytes, written as people write it; `check` gives it as a whole number."""

    form = "a size such as 40GB or 16GiB, or 0"
    units: Mapping[str, int] = {
        **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
        **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
    }

    def check(self, value: object) -> int:
        found = re.fullmatch(
            r"(\d{1,9}(?:\.\d{1,9})?) ?([kmgt]i?b)|0", str(value).lower(), re.ASCII
        )
        if not found or not isinstance(value, str | int):
            raise ValueError
        number, unit = found.groups()
        return int(float(number) * self.units[unit]) if unit else 0

    def parse(self, text: str) -> int:
        if text == "0":
            return 0
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([kmgt]i?b)", text.lower(), re.ASCII)
        if not found:
            raise ValueError
        return int(float(found[1]) * self.units[found[2]])


class Texts:
    """A list of texts; one text alone is a list of one."""

    form = 'a text, or a JSON list of texts such as ["END", "STOP"]'

    def check(self, value: object) -> list[str]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
            raise ValueError
        return [str(v) for v in values]

    def parse(self, text: str) -> list[str]:
        return self.check(json.loads(text) if text.startswith("[") else text)


class Thinking(Text):
    def __init__(self) -> None:
        super().__init__(
            "on, off or an effort word of the chat template such as low", r"[a-z][a-z_-]*"
        )

    def check(self, value: object) -> str:
        if isinstance(value, bool) or value in ("true", "false"):
            return "on" if value in (True, "true") else "off"
        return super().check(value)


class Object:
    form = 'a JSON object such as {"name": true}'

    def check(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        json.dumps(value, allow_nan=False)  # ValueError or TypeError: no JSON value
        return dict(value)

    def parse(self, text: str) -> dict[str, Any]:
        return self.check(json.loads(text))


class LogitBias(Object):
    form = 'a JSON object of token id to number from -100 to 100, such as {"42": -5}'

    def check(self, value: object) -> dict[str, Any]:
        number = Number(-100, 100)
        biases = super().check(value)
        if not all(re.fullmatch(r"\d{1,9}", token, re.ASCII) for token in biases):
            raise ValueError
        return {token: number.check(bias) for token, bias in biases.items()}


class Setting(NamedTuple):
    form: Form
    default: Any
    help: str
    option: bool = True  # may be given with -o and stored by llm


# The order is the order of every table that lists settings.
SETTINGS: dict[str, Setting] = {
    "temperature": Setting(Number(0, 5), 0.0, "randomness of sampling; 0 is greedy"),
    "top_p": Setting(
        Number(0, 1, above=True), 1.0, "smallest set of tokens with this probability; 1 is off"
    ),
    "top_k": Setting(Integer(0, 1_000_000), 0, "this many most likely tokens; 0 is off"),
    "min_p": Setting(
        Number(0, 1), 0.0, "tokens at least this likely, relative to the likeliest; 0 is off"
    ),
    "repetition_penalty": Setting(
        Number(0, 10, above=True), 1.0, "divide logits of tokens already seen; 1 is off"
    ),
    "presence_penalty": Setting(
        Number(-2, 2), 0.0, "subtract once from logits of tokens already seen; 0 is off"
    ),
    "frequency_penalty": Setting(
        Number(-2, 2), 0.0, "subtract per occurrence from logits of tokens seen; 0 is off"
    ),
    "penalty_scope": Setting(
        Choice("card", "mlx"), "card", "what penalties count: whole history, or the last 20 tokens"
    ),
    "logit_bias": Setting(LogitBias(), {}, "add to the logits of these token ids"),
    "max_tokens": Setting(
        Integer(1, 10_000_000), None, "longest answer in tokens; by default what fits the context"
    ),
    "stop": Setting(Texts(), [], "end the answer before any of these texts"),
    "seed": Setting(Integer(0, 2**63 - 1), None, "same seed, same text; random by default"),
    "context": Setting(
        Integer(16, 100_000_000), None, "context in tokens; by default what the model was made for"
    ),
    "kv_bits": Setting(Choice(2, 3, 4, 5, 6, 8), None, "quantise the KV cache to this many bits"),
    "thinking": Setting(
        Thinking(), None, "reasoning: on, off or an effort; template's own default"
    ),
    "thinking_budget": Setting(
        Integer(0, 10_000_000), None, "longest thinking in tokens, then the answer must begin"
    ),
    "system": Setting(
        Text(),
        "allow",
        "allow, forbid, or the text of a default system prompt",
        option=False,  # llm keeps the name for -s
    ),
    "chat_template_kwargs": Setting(Object(), {}, "further arguments of the chat template"),
    "draft": Setting(Flag(), True, "false runs the target alone"),
    "draft_tokens": Setting(Integer(1, 64, "auto"), "auto", "tokens to draft each round"),
    "prefix_cache": Setting(
        Flag(), True, "begin with what an earlier prompt has in common; false reads all anew"
    ),
}


def _find(name: str) -> Setting:
    try:
        return SETTINGS[name]
    except KeyError:
        import difflib  # slow to import, and only a mistake needs it

        near = difflib.get_close_matches(name, SETTINGS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(SETTINGS)}"
        raise UsageError(f"unknown setting {name!r}: {hint}") from None


def check(name: str, value: object) -> Any:
    """The typed value as it will be used. Raises UsageError naming the allowed form."""
    form = _find(name).form
    try:
        return form.check(value)
    except (ValueError, TypeError):
        raise UsageError(f"{name} must be {form.form}, not {value!r}") from None


def parse(name: str, text: str) -> Any:
    """The value that a command line or a stored option says. Raises UsageError."""
    form = _find(name).form
    try:
        return form.parse(text)
    except (ValueError, TypeError, RecursionError):
        raise UsageError(f"{name} must be {form.form}, not {text!r}") from None


class Value(NamedTuple):
    """A value and where it was said."""

    value: Any
    layer: str
    source: str


@dataclass(frozen=True)
class Resolved:
    """One setting: the value in effect, and those below it, highest first."""

    value: Any
    layer: str
    source: str
    shadowed: tuple[Value, ...]


class Against(NamedTuple):
    """A value in effect that the card speaks against, without a deviation."""

    setting: str
    message: str


@dataclass(frozen=True)
class Resolution:
    """Every setting; owner decisions in effect; values in effect that the card speaks against;
    what the card rejects (settings, `system`, `greedy`) and where."""

    settings: dict[str, Resolved]
    deviations: list[dict[str, Any]]
    against: list[Against] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)

    @property
    def warnings(self) -> list[str]:
        return [entry.message for entry in self.against]

    @property
    def values(self) -> dict[str, Any]:
        return {name: setting.value for name, setting in self.settings.items()}


Layer = Mapping[str, Value]


def stack(layers: list[Layer]) -> dict[str, Resolved]:
    """Every setting's winner and losers, from layers given lowest first."""
    resolved = {}
    for name, setting in SETTINGS.items():
        said = [layer[name] for layer in layers if name in layer]
        said.insert(0, Value(setting.default, LAYERS[0], "llm-specdec"))
        top = said.pop()
        resolved[name] = Resolved(*top, shadowed=tuple(reversed(said)))
    return resolved


def resolve(
    pairing: "Pairing",
    profile: str | None = None,
    stored: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    model_id: str | None = None,
) -> Resolution:
    """What every setting is for one model id, and why.

    `stored` are llm's own stored options (texts), `options` those of one call (texts or typed;
    None is unset). `model_id` is the one asked for: the bare name has its default profile, and
    stored options of its own. Raises UsageError where one of these is not a value of its setting,
    and RegistryError where the stored card cannot be read.
    """
    model_id = model_id or (f"{pairing.name}/{profile}" if profile else pairing.name)
    above: list[Layer] = [
        _own(pairing, "pairing", ("settings",), pairing.settings),
        _own(pairing, "profile", ("profiles", profile or ""), _profile(pairing, profile)),
        _stored(stored or {}, model_id),
        _given(options or {}, "-o", "-o"),
    ]
    if not pairing.card:
        found = stack(above)
        return Resolution(found, _deviations(pairing, profile, found))
    from llm_specdec import card_layers

    card = card_layers.read(pairing)
    found = stack([*card_layers.layers(card, "default"), *above])
    mode = _MODES.get(found["thinking"].value or "", "thinking")
    if mode != "default":
        found = stack([*card_layers.layers(card, mode), *above])
    deviations = _deviations(pairing, profile, found)
    excused = {deviation["setting"] for deviation in deviations}
    return Resolution(found, deviations, card_layers.against(card, found, excused), card.rejected)


# The card's mode for a value of `thinking`; an effort word is thinking.
_MODES = {"": "default", "off": "non-thinking"}


def _profile(pairing: "Pairing", profile: str | None) -> Mapping[str, Any]:
    return pairing.profiles[profile].settings if profile else {}


def _own(
    pairing: "Pairing", layer: str, table: tuple[str, ...], settings: Mapping[str, Any]
) -> Layer:
    return {
        name: Value(value, layer, pairing.where(*table, name)) for name, value in settings.items()
    }


def _stored(stored: Mapping[str, Any], model_id: str) -> Layer:
    """llm stores any text as an option's value: what is wrong comes up only here."""
    layer: dict[str, Value] = {}
    for name, value in stored.items():
        try:
            layer |= _given({name: value}, "stored option", f"llm models options set {model_id}")
        except UsageError as error:
            mend = f"llm models options clear {model_id} {name}"
            raise UsageError(f"{error}; it is a stored option: {mend}") from None
    return layer


def _given(given: Mapping[str, Any], layer: str, command: str) -> Layer:
    return {
        name: Value(_option(name, value), layer, f"{command} {name}")
        for name, value in given.items()
        if value is not None
    }


def _option(name: str, value: Any) -> Any:
    if not _find(name).option:
        raise UsageError(f"{name} is no option of a call: set it on the pairing or a profile")
    return parse(name, value) if isinstance(value, str) else check(name, value)


def _deviations(
    pairing: "Pairing", profile: str | None, settings: Mapping[str, Resolved]
) -> list[dict[str, Any]]:
    """Owner decisions against the card that are in effect."""
    reasons = {"pairing": pairing.deviations}
    if profile:
        reasons["profile"] = pairing.profiles[profile].deviations
    return [
        {"setting": name, "value": top.value, "layer": top.layer, "reason": reason}
        for name, top in settings.items()
        if (reason := reasons.get(top.layer, {}).get(name))
    ]


def against_system(resolution: Resolution) -> str | None:
    """What to say to a system prompt (-s) that the card rejects and no deviation allows."""
    place = resolution.rejected.get("system")
    if not place or any(d["setting"] == "system" for d in resolution.deviations):
        return None
    return f"a system prompt goes against the card: {place} rejects it"


def lane(pairing: "Pairing", resolution: Resolution) -> dict[str, str]:
    """The lane that a run would start in: kind, state (drafting or off) and why."""
    draft = resolution.settings["draft"]
    if not draft.value:
        return {"kind": "none", "state": "off", "reason": f"draft is false ({draft.source})"}
    if not pairing.enabled:
        reason = pairing.disabled_reason or "switched off by hand"
        return {"kind": "none", "state": "off", "reason": f"pairing disabled: {reason}"}
    if pairing.kind == "none":
        return {"kind": "none", "state": "off", "reason": "the pairing has no drafter"}
    said = {
        "mtp": "the target's own head",
        "lookup": "text repeated from prompt and answer",
    }.get(pairing.drafter, f"drafter {pairing.drafter}")
    tokens = resolution.values["draft_tokens"]
    return {
        "kind": pairing.kind,
        "state": "drafting",
        "reason": f"{said}, draft tokens {tokens}",
    }
