"""What a value may be: checked as typed, parsed as a command line says it."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Protocol


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
        return self.check(text)


class Duration:
    """A time, kept as it was said; `seconds` gives its length."""

    form = "a time such as 90s, 10m or 1h, 0, or forever"

    def check(self, value: object) -> str:
        text = str(value) if type(value) in (int, str) else ""
        if text not in ("0", "forever") and not re.fullmatch(r"\d{1,6}[smhd]", text, re.ASCII):
            raise ValueError
        return text

    def parse(self, text: str) -> str:
        return self.check(text)


def seconds(duration: str) -> float | None:
    """The length of a checked `Duration`; None: for ever."""
    if duration == "forever":
        return None
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return 0.0 if duration == "0" else float(duration[:-1]) * units[duration[-1]]


class Texts:
    """A list of texts; one text alone is a list of one."""

    form = 'a text, or a JSON list of texts such as ["END", "STOP"]'

    def check(self, value: object) -> list[str]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
            raise ValueError
        return [str(v) for v in values]

    def parse(self, text: str) -> list[str]:
        """A text that only looks like a list, such as [END] or [1], is a text."""
        quoted = re.match(r"\[\s*(\"|\])", text)
        return self.check(json.loads(text) if quoted else text)


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
