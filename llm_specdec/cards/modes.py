"""Which mode a figure belongs to: thinking or not, a task, a named preset."""

import re
from dataclasses import dataclass
from functools import lru_cache

from llm_specdec.cards.words import kinds, pattern, words

BRACKETED = re.compile(r"\(([^()]{1,40})\)")
SWITCHES = "{}[]()\"'"


@dataclass(frozen=True)
class Mention:
    """Words in a sentence that name a mode. kind: base, task or all (no mode in particular)."""

    start: int
    end: int
    kind: str
    name: str | None


@dataclass(frozen=True)
class Label:
    """What a heading, list label, table cell or key says of modes.

    modes: those it names (None = explicitly no mode); empty = it says nothing.
    preset: an unknown name, a preset only if its siblings show that it is one.
    """

    modes: tuple[str | None, ...] = ()
    preset: str | None = None


def mentions(text: str, label: bool = False) -> list[Mention]:
    """Mode words, in order. In running text a task counts only as in "for coding"."""
    found: list[Mention] = []

    def take(words_of: str, kind: str, name: str | None, *, fits: bool = False) -> None:
        for start, end in words(words_of).spans(text):
            overlaps = any(start < m.end and m.start < end for m in found)
            if not overlaps and (not fits or _is_meant(text, start, end, found, label)):
                found.append(Mention(start, end, kind, name))

    take("modes.every", "all", None)
    take("modes.non-thinking", "base", "non-thinking")
    take("modes.thinking", "base", "thinking")
    tasks = kinds("modes.tasks")
    for name in tasks * 2:  # again, for lists: "for coding and math"
        take(f"modes.tasks.{name}", "task", name, fits=True)
    take("modes.general", "all", None, fits=True)
    if label:
        take("modes.bare_non_thinking", "base", "non-thinking")
        take("modes.bare_thinking", "base", "thinking")
    else:
        for bracket in BRACKETED.finditer(text):
            for m in mentions(bracket[1], label=True) if len(bracket[1].split()) <= 4 else ():
                start, end = m.start + bracket.start(1), m.end + bracket.start(1)
                if not any(start < o.end and o.start < end for o in found):
                    found.append(Mention(start, end, m.kind, m.name))
    return sorted(found, key=lambda mention: mention.start)


def _is_meant(text: str, start: int, end: int, found: list[Mention], label: bool) -> bool:
    """Whether a task is what the figures are for: after "for", before "tasks", or in a list."""
    after = text[end : end + 40]
    if re.match(
        r"[\s-]*(?:models?|tune|blocks?|fence|snippet|below|above|path|base|release)\b", after
    ):
        return False
    if label or pattern(r"\s*«modes.after_task»").match(after):
        return True
    links = pattern(r"[\s,/&、]*«figures.and rejection.join»?[\s,]*")
    if any(m.kind == "task" and links.fullmatch(text[m.end : start]) for m in found):
        return True
    return bool(pattern(r"«modes.for»\s*$").search(text[max(0, start - 40) : start]))


def compose(group: list[Mention]) -> tuple[str, ...]:
    """Neighbouring mentions as modes: thinking + coding = thinking:coding; two tasks are two."""
    bases = list(dict.fromkeys(m.name for m in group if m.kind == "base"))
    tasks = list(dict.fromkeys(m.name for m in group if m.kind == "task"))
    pairs = [(base, task) for base in bases or [None] for task in tasks or [None]]
    named = (":".join(name for name in pair if name) for pair in pairs)
    return tuple(name for name in named if name)


def parts(mode: str | None) -> tuple[str | None, str]:
    """A mode as (thinking or not, task)."""
    first, _, rest = (mode or "").partition(":")
    return (first, rest) if first in ("thinking", "non-thinking") else (None, first)


@lru_cache(maxsize=256)
def label_of(text: str) -> Label:
    """The mode that a label names."""
    text = re.sub(r"^[\s#>*\d.)(-]+", "", text).strip().rstrip(":").strip()
    outer = BRACKETED.sub(" ", text)
    named = mentions(outer, label=True)
    if not any(m.kind == "base" for m in named):
        inner = [m for part in BRACKETED.findall(text) for m in mentions(part, label=True)]
        named += [m for m in inner if m.kind == "base" or not named]
    found = compose(named)
    preset = _preset(outer)
    called = outer in words("modes.preset") and preset
    if any(m.kind == "base" for m in named) or (found and not called):
        return Label(found)
    return Label((None,)) if named and not found else Label((), preset)


def _preset(text: str) -> str | None:
    name = re.sub(r"[^\w\s+-]", " ", text)
    if name in words("modes.engines") or text in words("cues.advice") or len(name.split()) > 4:
        return None
    name = " ".join(words("modes.filler").pattern.sub(" ", name).split()).lower()
    if not name or len(name.split()) > 3 or not re.search(r"[^\W\d_]", name):
        return None
    return name


@dataclass(frozen=True)
class Place:
    """The mode of a figure as its labels have it.

    preset: an unknown label, a preset only if its siblings in `section` show that it is one.
    """

    mode: str | None
    preset: str | None = None
    section: int = 0


def places(labels: list[tuple[Label, int]]) -> list[Place]:
    """The modes that labels make together, nearest first, each with its section."""
    for index, (label, section) in enumerate(labels):
        if len(label.modes) > 1:
            rows = [
                [*labels[:index], (Label((mode,)), section), *labels[index + 1 :]]
                for mode in label.modes
            ]
            return list(dict.fromkeys(_place(row) for row in rows))
    return [_place(labels)]


def _place(labels: list[tuple[Label, int]]) -> Place:
    base: str | None = None
    task: str | None = None  # "" = explicitly no task
    preset: tuple[str, int] | None = None
    for label, section in labels:
        for name in label.modes[:1]:
            first, rest = parts(name)
            base = base or first
            task = rest if task is None and (rest or not first) else task
        if label.preset and not preset and not base and task is None:
            preset = (label.preset, section)
    mode = f"{base}:{task}" if base and task else base or task or None
    return Place(mode, *preset) if preset and not mode else Place(mode)
