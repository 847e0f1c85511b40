"""Settings and their figures in a piece of text: what is said, not whether it is advice."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from llm_specdec.cards.found import Value
from llm_specdec.cards.words import kinds, one_of, pattern

NUMBER = (
    r"(?<![A-Za-z0-9_.])(?<![A-Za-zА-я]-)(?<!\d:)(?:(?<=[\s=:(\[,])[-+])?"
    r"(?:[1-9]\d{0,2}(?:[,.\u202f' ]\d{3})+(?!\d)|\d+[.,]\d+|\d+|\.\d+)"
    r"(?![A-Za-z0-9_%]|[.,]\d|\s?%|-(?:bit|shot|way|B\b))"
)
ZERO = r"(?:(?<!\w)(?:zero|null|zéro|cero|ноль|sıfır)(?![\w-]))"
NUMBERS = re.compile(NUMBER)
ALIAS = re.compile(r"[\s`\"']{0,3}[(/]?[\s`\"']{0,3}")
MARKS = r"(?:[-=]>|[\s\"'`()\[\]=:→≈~|–—-])"
# Values that make sense; a figure outside is something else.
LIMITS = {
    "temperature": (0, 5),
    "top_p": (0, 1),
    "top_k": (-1, 1000),
    "min_p": (0, 1),
    "repetition_penalty": (0, 2.5),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "max_tokens": (1, 10_000_000),
}


@dataclass(frozen=True)
class Name:
    setting: str
    start: int
    end: int


@dataclass(frozen=True)
class Figure:
    """A setting with a value or a span, and where they stand: the name's start, the end of both."""

    setting: str
    start: int
    end: int
    value: Value | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_range(self) -> bool:
        return self.value is None


@dataclass(frozen=True)
class Reading:
    """A piece of text taken apart. rest: the text with names and figures blanked.

    unnamed and unvalued: what could not be put together, which makes the text doubtful.
    """

    figures: list[Figure]
    unvalued: list[Name]
    unnamed: list[int]
    rest: str


@lru_cache(maxsize=256)
def names(text: str) -> tuple[Name, ...]:
    """Names of sampler settings, in order, without those of something else ("router top-k")."""
    return tuple(
        name
        for name in _all_names(text)
        if not pattern(r"«other.before»(?:'s)?[\s_-]*$").search(
            text[max(0, name.start - 40) : name.start]
        )
        and not pattern(r"[\s_=-]{0,3}«other.after»").match(text, name.end)
    )


def has_names(text: str) -> bool:
    """Whether any name stands there, be it of something else ("router top-k")."""
    return bool(_all_names(text))


def _all_names(text: str) -> list[Name]:
    found: list[Name] = []
    for match in _name_pattern().finditer(text):
        setting, (start, end) = match.lastgroup or "", match.span()
        last = found[-1] if found else None
        if last and last.setting == setting and ALIAS.fullmatch(text, last.end, start):
            found[-1] = Name(setting, last.start, end)  # "repetition penalty (repetition_penalty)"
        else:
            found.append(Name(setting, start, end))
    return found


@cache
def _name_pattern() -> re.Pattern[str]:
    each = (f"(?P<{name}>{one_of(f'settings.{name}')})" for name in kinds("settings"))
    return re.compile("|".join(each), re.IGNORECASE)


def parse(setting: str, raw: str) -> float | int | None:
    """A figure as written ("0,35", ".65", "32,768"), None where it cannot be this setting."""
    raw = raw.replace("'", "").replace("\u202f", "").replace(" ", "").lstrip("+")
    raw = "0" if raw.isalpha() else raw
    whole = setting in ("max_tokens", "top_k")
    if whole:
        if re.fullmatch(r"\d{1,3}([.,]\d{3})+", raw):
            raw = raw.replace(",", "").replace(".", "")
        if not re.fullmatch(r"-?\d{1,12}(\.0{1,9})?", raw):
            return None
    try:
        value = float(raw.replace(",", "."))
    except ValueError:
        return None
    low, high = LIMITS[setting]
    if not low <= value <= high:
        return None
    return int(value) if whole or re.fullmatch(r"-?\d+", raw) else value


def read(text: str) -> Reading:
    """All settings with figures: "top-p of 0.9", or else "a 0.9 top-p"."""
    everything = _all_names(text)
    known = names(text)
    first = _put_together(text, known, everything, _after)
    if first.unvalued or first.unnamed:
        other = _put_together(text, known, everything, _before)
        if not (other.unvalued or other.unnamed):
            return other
    return first


Find = Callable[[str, Name, int, int], Figure | None]


def _put_together(
    text: str, known: tuple[Name, ...], everything: list[Name], find: Find
) -> Reading:
    found: list[Figure] = []
    unvalued: list[Name] = []
    for name in known:
        limit = min((n.start for n in everything if n.start > name.start), default=len(text))
        start = max((n.end for n in everything if n.end <= name.start), default=0)
        figure = find(text, name, start, limit)
        if figure:
            found.append(figure)
        else:
            unvalued.append(name)
    found += [point for figure in found if (point := _point(text, figure))]
    rest = list(text)
    for name in known:
        rest[name.start : name.end] = " " * (name.end - name.start)
    for figure in found:
        rest[figure.start : figure.end] = " " * (figure.end - figure.start)
    left = "".join(rest)
    unnamed = [m.start() for m in NUMBERS.finditer(left) if not _counts(left, m)]
    return Reading(found, unvalued, unnamed, left)


@cache
def _span_pattern() -> re.Pattern[str]:
    """A figure, a span or a bound."""
    number = f"(?:{NUMBER}|{ZERO})"
    return re.compile(
        rf"""(?P<at_least>(?:{one_of("figures.at_least")}|≥|>=?)\s*(?:{one_of("figures.link")}\s+)?)?
        (?P<at_most>(?:{one_of("figures.at_most")}|≤|<=?)\s*(?:{one_of("figures.link")}\s+)?)?
        (?P<between>{one_of("figures.between")}\s*)?(?P<from>{one_of("figures.from")}\s*)?
        [\s~≈`"'(]{{0,3}}(?P<one>{number})
        (?:[`"']?\s*(?:(?P<to>-|–|—|~|\.\.\.?|…|{one_of("figures.to")})|(?P<and>{one_of("figures.and")})
            |(?P<around>±|\+/-|,?\s*{one_of("figures.plus_minus")}))\s*[`"']?(?P<two>{number}))?
        (?P<within>\s*{one_of("figures.within")})?
        (?:(?P<or_more>\s*(?:\+(?!\w)|{one_of("figures.or_more")}))
          |(?P<or_less>\s*{one_of("figures.or_less")}))?""",
        re.IGNORECASE | re.VERBOSE,
    )


@cache
def _link_pattern() -> re.Pattern[str]:
    bounds = one_of("figures.at_least", "figures.at_most", "figures.between", "figures.from")
    return re.compile(
        f"(?:(?!{bounds})(?:{MARKS}|{one_of('figures.link')})){{0,40}}+", re.IGNORECASE
    )


def _after(text: str, name: Name, _start: int, limit: int) -> Figure | None:
    link = _link_pattern().match(text, name.end, limit)
    return span(text, name.setting, name.start, link.end() if link else name.end, limit)


def _before(text: str, name: Name, start: int, _limit: int) -> Figure | None:
    """ "0.7 for temperature", "a 0.7 temperature", "0.95 (top-p)"."""
    gap = pattern(r"[\s\"'`(]{0,9}(?:«figures.after_link»\s+)?[\s\"'`]{0,9}$")
    for match in NUMBERS.finditer(text, start, name.start):
        if gap.match(text[match.end() : name.start]):
            value = parse(name.setting, match[0])
            return None if value is None else Figure(name.setting, match.start(), name.end, value)
    return None


def span(text: str, setting: str, start: int, at: int, limit: int) -> Figure | None:
    """The value, span or bound that stands at an offset, if its form is certain."""
    match = _span_pattern().match(text, at, limit)
    if not match:
        return None
    one, two = parse(setting, match["one"]), parse(setting, match["two"] or "")
    if one is None:
        return None
    if match["around"] and two is not None:
        low, high = round(one - two, 6), round(one + two, 6)
    elif match["two"] and (match["to"] or match["between"] or match["within"]):
        bound = (match["at_least"] or match["at_most"] or "").strip()
        if two is None or (bound and not pattern("«figures.from»").fullmatch(bound)):
            return None
        low, high = sorted((one, two))
    else:
        return _bound(text, match, setting, start, limit, one)
    return Figure(setting, start, match.end(), None, low, high) if low < high else None


def _bound(
    text: str, match: re.Match[str], setting: str, start: int, limit: int, one: float
) -> Figure | None:
    """A lone figure: a value, a bound, or two bounds ("no lower than 0.8, no higher than 0.9")."""
    end = match.end("or_more") if match["or_more"] else match.end("or_less")
    end = max(end, match.end("one"))
    if match["at_least"] or match["or_more"]:
        further = re.compile(r"[\s,;&]*").match(text, end, limit)
        other = span(text, setting, start, further.end(), limit) if further else None
        if other and other.low is None and other.high is not None and one < other.high:
            return Figure(setting, start, other.end, None, one, other.high)
        return Figure(setting, start, end, None, one, None)
    if match["at_most"] or match["or_less"]:
        return Figure(setting, start, end, None, None, one)
    lead = (match["between"] or match["from"] or "").strip()
    if lead and not pattern("«figures.link»").fullmatch(lead):
        return None
    return Figure(setting, start, end, one)


def _point(text: str, span: Figure) -> Figure | None:
    """The value recommended inside a span: "0.5-0.7 (0.6 is recommended)"."""
    bracket = re.compile(r"[\s`]{0,3}\(([^()]{1,60})\)").match(text, span.end)
    if not (span.is_range and bracket):
        return None
    figures = [*NUMBERS.finditer(bracket[1])]
    words_left = NUMBERS.sub(" ", bracket[1])
    if len(figures) != 1 or not pattern(rf"(?:{MARKS}|«cues.advice figures.link»)*+").fullmatch(
        words_left
    ):
        return None
    value = parse(span.setting, figures[0][0])
    return None if value is None else Figure(span.setting, span.end, bracket.end(), value)


def _counts(text: str, match: re.Match[str]) -> bool:
    """Whether a figure counts or numbers something else: "8 experts", "version 2"."""
    numbered = pattern(r"«figures.numbered»\s*$").search(
        text[max(0, match.start() - 30) : match.start()]
    )
    return bool(numbered or pattern(r"\s*+[-–]?\s*+«figures.counts»").match(text, match.end()))
