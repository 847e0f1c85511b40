"""What a card says, as plain data. Every entry names the place it stands at."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SETTINGS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "system",
    "thinking",
)
# keys of generation_config.json that count → setting
CONFIG_KEYS = {name: name for name in SETTINGS if name not in ("system", "thinking")}
CONFIG_KEYS |= {"max_new_tokens": "max_tokens"}
README = "README.md"
GENERATION_CONFIG = "generation_config.json"

Value = float | int | str
Outcome = Literal["taken", "shown", "set aside"]


@dataclass(frozen=True)
class Finding:
    """A recommended value. `line` counts from 1, front matter included; None in JSON files."""

    setting: str
    value: Value
    mode: str | None
    repo: str
    file: str
    line: int | None
    text: str = ""


@dataclass(frozen=True)
class Range:
    """A recommended span, both ends included; None is an open end."""

    setting: str
    low: float | None
    high: float | None
    mode: str | None
    repo: str
    line: int
    text: str = ""

    def __contains__(self, value: Value) -> bool:
        if isinstance(value, str):
            return False
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


@dataclass(frozen=True)
class Forbidden:
    """A rejection: a setting, `system` (no system prompt) or `greedy` (no temperature 0)."""

    setting: str
    repo: str
    line: int
    text: str = ""


@dataclass(frozen=True)
class Required:
    """A recommended value that the card calls essential."""

    setting: str
    value: Value
    repo: str
    line: int
    text: str = ""


@dataclass(frozen=True)
class Disagreement:
    """Values that cannot all be right; `"forbidden"` stands for a rejection."""

    setting: str
    mode: str | None
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Unreadable:
    """A file that is there and cannot be read."""

    repo: str
    file: str
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A line that names a setting and a figure, and that the reader did not take."""

    repo: str
    line: int
    text: str


@dataclass(frozen=True)
class Line:
    """What became of a line that speaks of sampling, thinking or the system prompt, and by which
    rule. about: what it speaks of: settings, `system`, `greedy`, `thinking`."""

    repo: str
    line: int
    text: str
    outcome: Outcome
    rule: str
    about: tuple[str, ...] = ()


@dataclass
class Card:
    """Everything said by the cards of a model and of its bases.

    lineage: each repo that was read, target first → the bases its front matter names.
    notes: what else a reader should know, such as a base whose card was not read.
    effective: mode (or "default") → setting → value: what may be taken without asking.
    open: repo → settings that its shown lines speak of: nothing is inherited over them.
    """

    target: str
    lineage: dict[str, list[str]] = field(default_factory=dict)
    recommended: list[Finding] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    forbidden: list[Forbidden] = field(default_factory=list)
    required: list[Required] = field(default_factory=list)
    system_default: str | None = None
    disagreements: list[Disagreement] = field(default_factory=list)
    effective: dict[str, dict[str, Value]] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    open: dict[str, list[str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        data = asdict(self)
        for entry in data["disagreements"]:
            entry["values"] = list(entry["values"])
        return data
