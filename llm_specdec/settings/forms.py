"""What a value may be: its words for people, its type for pydantic, and how a text is read."""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
BYTES = {
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
}


class Form:
    """`form` ends a sentence that begins "must be". `check` takes a typed value, `parse` a text
    of the command line, which `read` turns into one. Both raise ValueError or TypeError."""

    def __init__(self, form: str, kind: Any, read: Callable[[str], object] = str) -> None:
        self.form, self.read = form, read
        self.kind: TypeAdapter[Any] = TypeAdapter(kind, config=ConfigDict(defer_build=True))

    def check(self, value: object) -> Any:
        return self.kind.validate_python(value, strict=True)

    def parse(self, text: str) -> Any:
        return self.check(self.read(text))


def number(low: float, high: float, *, above: bool = False) -> Form:
    form = f"a number above {low}, at most {high}" if above else f"a number from {low} to {high}"
    bounds = Field(gt=low, le=high) if above else Field(ge=low, le=high)
    return Form(form, Annotated[float, bounds], _number)


def integer(low: int, high: int, *words: str) -> Form:
    """A whole number; `words` are allowed beside it."""
    form = " or ".join([*words, f"a whole number from {low} to {high}"])
    kind = Annotated[int, Field(ge=low, le=high)]
    return Form(form, kind | Literal[words] if words else kind, _integer)


def choice(*options: str | int) -> Form:
    *most, last = map(str, options)
    return Form(f"{', '.join(most)} or {last}", Literal[options], {str(o): o for o in options}.get)


def seconds(duration: str) -> float | None:
    """The length of a checked DURATION; None: for ever."""
    if duration == "forever":
        return None
    return 0.0 if duration == "0" else float(duration[:-1]) * SECONDS[duration[-1]]


def _number(text: str) -> float:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        raise ValueError
    return float(text)


def _integer(text: str) -> int | str:
    return int(text) if re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) else text


def _flag(text: str) -> bool | None:
    return {"true": True, "on": True, "false": False, "off": False}.get(text.lower())


def _size(value: object) -> int:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([kmgt]i?b)|0", str(value).lower(), re.ASCII)
    if not found or not isinstance(value, str | int):
        raise ValueError
    number, unit = found.groups()
    return int(float(number) * BYTES[unit]) if unit else 0


def _texts(text: str) -> object:
    """A text that only looks like a list, such as [END] or [1], is a text."""
    return json.loads(text) if re.match(r"\[\s*(\"|\])", text) else text


def _thinking(value: object) -> object:
    if isinstance(value, bool) or value in ("true", "false"):
        return "on" if value in (True, "true") else "off"
    return value


def _json(value: dict[str, Any]) -> dict[str, Any]:
    json.dumps(value, allow_nan=False)  # ValueError or TypeError: no JSON value
    return value


FLAG = Form("true or false", bool, _flag)
TEXT = Form("a text that is not empty", Annotated[str, Field(pattern=r"\S")])
# One text alone is a list of one.
TEXTS = Form(
    'a text, or a JSON list of texts such as ["END", "STOP"]',
    Annotated[
        list[Annotated[str, Field(min_length=1)]],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ],
    _texts,
)
# Written as people write it; checked, a whole number of bytes.
SIZE = Form("a size such as 40GB or 16GiB, or 0", Annotated[int, BeforeValidator(_size)])
# Kept as it was said; `seconds` gives its length.
DURATION = Form(
    "a time such as 90s, 10m or 1h, 0, or forever",
    Annotated[
        str,
        Field(pattern=r"^(0|forever|[0-9]{1,6}[smhd])$"),
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
    ],
)
THINKING = Form(
    "on, off or an effort word of the chat template such as low",
    Annotated[str, Field(pattern=r"^[a-z][a-z_-]*$"), BeforeValidator(_thinking)],
)
OBJECT = Form(
    'a JSON object such as {"name": true}',
    Annotated[dict[str, Any], AfterValidator(_json)],
    json.loads,
)
LOGIT_BIAS = Form(
    'a JSON object of token id to number from -100 to 100, such as {"42": -5}',
    dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], Annotated[float, Field(ge=-100, le=100)]],
    json.loads,
)
