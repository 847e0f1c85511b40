"""The words that cards use, by language, in `words/*.toml`. Loaded when a card is read.

A pattern is a phrase in which `*` stands for the rest of a word, a blank for any white space,
" *" or " ?" for white space or none; the rest is a regular expression. In the names of settings a
hyphen stands for a hyphen, an underscore, a blank or nothing. All languages are read together:
a card may mix them.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files

LETTER = r"[0-9A-Za-z_\u00c0-\u024f\u0370-\u052f\u1e00-\u1eff]"  # scripts with blanks between words
UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3\u0e00-\u0e7f\u0600-\u06ff]")


class Words:
    """The patterns of one kind, searched as one."""

    def __init__(self, kind: str) -> None:
        self.pattern = re.compile(one_of(kind), re.IGNORECASE)

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in self.pattern.finditer(text)]

    def __contains__(self, text: str) -> bool:
        return self.pattern.search(text) is not None


@cache
def words(kind: str) -> Words:
    """The words of a kind such as "cues.advice"."""
    return Words(kind)


@cache
def one_of(*kinds: str) -> str:
    """A regular expression for any word of these kinds, the longest first; never empty."""
    found = sorted({p for kind in kinds for p in _patterns().get(kind, ())}, key=len, reverse=True)
    spaced = "|".join(p for p in found if not UNSPACED.search(p)) or "(?!)"
    unspaced = "|".join(p for p in found if UNSPACED.search(p)) or "(?!)"
    return f"(?:(?<!{LETTER})(?:{spaced})(?!{LETTER})|{unspaced})"


@cache
def pattern(template: str) -> re.Pattern[str]:
    """A regular expression in which «cues.advice» stands for any word of that kind."""
    source = re.sub("«(.*?)»", lambda m: one_of(*m[1].split()), template)
    return re.compile(source, re.IGNORECASE)


@cache
def kinds(prefix: str) -> tuple[str, ...]:
    """The last names of all kinds below a prefix: the settings, the tasks."""
    return tuple(k.removeprefix(f"{prefix}.") for k in _patterns() if k.startswith(f"{prefix}."))


@cache
def _patterns() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    folder = files(__package__) / "words"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".toml"):
            _flatten(tomllib.loads(path.read_text(encoding="utf-8")), "", found)
    return found


def _flatten(table: dict[str, object], prefix: str, found: dict[str, list[str]]) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            _flatten(value, f"{prefix}{key}.", found)
        elif isinstance(value, list):
            found.setdefault(prefix + key, []).extend(_pattern(p, prefix) for p in value)


def _pattern(phrase: str, prefix: str) -> str:
    if prefix == "settings.":
        phrase = re.sub(r"(?<!\(\?)-", r"[\\s_.-]{0,3}", phrase)
    phrase = re.sub(r"(?<!\\)\((?!\?)", "(?:", phrase)  # nobody asks for the groups
    return (
        phrase.replace(" *", r"\s{0,3}")
        .replace(" ?", r"\s{0,3}")
        .replace("*", r"\w*")
        .replace(" ", r"\s+")
    )
