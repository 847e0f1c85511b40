"""Settings and their figures in one sentence: what is said, not whether it is advice."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from llm_specdec.cards.found import Value
from llm_specdec.cards.lexicon import (
    IMPERATIVE,
    LIMITS,
    NAME_SPOILED_AFTER,
    NAME_SPOILED_BEFORE,
    NAMES,
    RECOMMENDS,
)
from llm_specdec.cards.modes import mentions

NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])(?<![A-Za-zА-я]-)(?<!\d:)(?:(?<=[\s=:(\[,])[-+])?"
    r"(?:[1-9]\d{0,2}(?:[,.\u202f' ]\d{3})+(?![\d])|\d+[.,]\d+|\d+|\.\d+|(?:zero|zéro|cero|ноль|sıfır)(?!-))"
    r"(?![A-Za-z0-9_%]|[.,]\d|\s?%|-(?:bit|shot|way|B\b))"
)
TO = re.compile(
    r"\s*(?:(?:-|–|—|~|\.\.\.?|…|至|到|から|에서)\s*|(?:to|bis|à|a|fino a|до|ile|tot|do|đến|hingga|sampai|through|and|und|et|y|e|и|ve|en|i|와|과)\s+|(?:と)\s*)",
    re.IGNORECASE,
)
AND = re.compile(r"and|und|et|y|e|и|ve|ile|en|i|와|과|と", re.IGNORECASE)
BETWEEN = re.compile(
    r"(?:\b(?:between|zwischen|entre|tra|fra|между|tussen|między)|介于|在)\s*$", re.IGNORECASE
)
AT_LEAST = re.compile(
    r"""(?:\b(?:at\s+least|not\s+(?:below|under|less\s+than|lower\s+than)|no\s+(?:less|lower)\s+than|above|over|minimum(?:\s+(?:of|is))?|from|never\s+below|more\s+than|higher\s+than|starting\s+(?:at|from)|mindestens|ab|nicht\s+unter|au\s+moins|minimum|al\s+menos|mínimo(?:\s+de)?|no\s+mínimo|pelo\s+menos|almeno|en\s+az|не\s+ниже|не\s+менее|минимум|от|co\s+najmniej|minstens|minimal)|≥|>=?|至少|不低于|最低|最少|最小)\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
AT_MOST = re.compile(
    r"""(?:\b(?:at\s+most|not\s+(?:above|over|more\s+than|higher\s+than|exceed(?:ing)?)|no\s+(?:more|higher)\s+than|below|under|up\s+to|maximum(?:\s+(?:of|is))?|never\s+(?:above|over|exceed)|less\s+than|lower\s+than|exceed|höchstens|maximal|bis(?:\s+zu)?|unter|nicht\s+über|au\s+plus|jusqu'à|como\s+máximo|máximo(?:\s+de)?|hasta|no\s+máximo|até|al\s+massimo|fino\s+a|en\s+fazla|не\s+выше|не\s+более|максимум|до|co\s+najwyżej|hoogstens)|≤|<=?|不超过|不高于|最高|最多|最大)\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
OR_MORE = re.compile(
    r"""\s*(?:\+(?!\w)|at\s+least|minimum|au\s+moins|como\s+mínimo|al\s+menos|no\s+mínimo|pelo\s+menos|almeno|mindestens|en\s+az|(?:or|and)\s+(?:higher|more|above|greater|up(?:wards)?|over|hotter|larger)|upwards?|oder\s+(?:mehr|höher)|und\s+(?:mehr|höher)|ou\s+plus|o\s+(?:más|superior|mayor)|ou\s+(?:mais|superior)|o\s+(?:più|superiore)|и\s+(?:выше|более|больше)|ve\s+üz(?:eri|erinde)|(?:veya|ya\s+da)\s+(?:üstü|daha\s+yüksek)|lub\s+(?:więcej|wyżej)|of\s+hoger|以上|及以上|或以上|或更高|이상)""",
    re.IGNORECASE | re.VERBOSE,
)
OR_LESS = re.compile(
    r"""\s*(?:(?:or|and)\s+(?:lower|less|below|under|smaller|colder)|at\s+(?:the\s+)?most|maximum|max\b|au\s+plus|como\s+máximo|no\s+máximo|al\s+massimo|en\s+fazla|не\s+более|oder\s+(?:weniger|niedriger)|höchstens|ou\s+moins|o\s+(?:menos|inferior|menor)|ou\s+(?:menos|inferior)|o\s+(?:meno|inferiore)|и\s+(?:ниже|менее|меньше)|ve\s+altı\w*|veya\s+altı|lub\s+(?:mniej|niżej)|of\s+lager|以下|及以下|或以下|或更低|以内|이하)""",
    re.IGNORECASE | re.VERBOSE,
)
# A figure that counts something else: "8 experts", "5 runs", "16 GB", "4 of 7".
COUNTS = re.compile(
    r"""\s*[-–]?\s*(?:bits?|GB|MB|TB|KB|GiB|B|billion|million|trillion|k|layers?|heads?|experts?|runs?|shots?|steps?|epochs?|times|hours?|days?|minutes?|seconds?|ms|years?
    |models?|languages?|questions?|problems?|samples?|prompts?|turns?|users?|GPUs?|cards?|nodes?|answers?|pages?|words?|lines?|characters?|parameters?|points?|per\s+cent|percent|x\b|×|of\s+\d|out\s+of|different|other|more\b(?!\s+or)
    |routing|gating|tokens?|个|次|层|轮|亿|万|回|件|個|Fragen|Schichten|couches|capas|camadas|слоёв|слоев|вопрос\w*)(?![A-Za-z])""",
    re.IGNORECASE | re.VERBOSE,
)
PROPER_NOUN = re.compile(
    r"(?:^|[^.!?:\s]\s+|[(\"'])(?!(?:Wert|Werten|Value|Values|Setting|Range|Default|Recommended|Um|Auf|Bei|To|At|Of|Around|About|Circa|Etwa)[\s-])(?:[A-Z][A-Za-z]+|v|version|versions|release|chapter|section|step|table|figure|page|top|line)[\s-]$"
)
FIELD = re.compile(r"[\s\"'`)\]}]*(?:[=:→≈~|–—-]|:=|->|=>)?[\s\"'`(\[]*")
EXCLUDED_BEFORE = re.compile(
    r"(?:\b(?:instead\s+of|rather\s+than|not|than|from|statt|anstatt|nicht|au\s+lieu\s+de|en\s+vez\s+de|en\s+lugar\s+de|em\s+vez\s+de|invece\s+di|вместо|а\s+не|not\s+the|unlike|over\s+the|defaults?(?:\s+(?:is|of|to))?|default:)|而不是|而非|不是|ではなく|대신)\s*(?:the\s+|usual\s+|old\s+)*$",
    re.IGNORECASE,
)
STRUCTURE_WORD = re.compile(
    r"""\b(?:layers?|experts?|version|bits?|quants?|context|window|rope|factor|rank|alpha|epochs?
    |learning|batch|scores?|loss|vocabulary|page|chapter|release|effort|budget|seed)\b
    |上下文|版本|层|专家|学习率""",
    re.IGNORECASE | re.VERBOSE,
)


EXAMPLE = re.compile(
    r",?\s*\(?\b(?:e\.g\.,?|for\s+example,?|such\s+as|say,?|z\.\s?B\.|par\s+exemple|por\s+ejemplo|por\s+exemplo)\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Figure:
    """A setting with a value or a span, and where in the sentence it stands."""

    setting: str
    start: int
    end: int
    value: Value | None = None
    low: float | None = None
    high: float | None = None
    name_start: int = -1

    @property
    def is_range(self) -> bool:
        return self.value is None


@dataclass(frozen=True)
class Name:
    setting: str
    start: int
    end: int


def names(text: str) -> list[Name]:
    """Sampler names in a sentence, in order."""
    return [name for name in _all_names(text) if not _spoiled(text, name)]


def _all_names(text: str) -> list[Name]:
    """Names, those of other things ("router top-k") among them, longest first on overlap."""
    found = [
        Name(setting, *match.span())
        for setting, pattern in NAMES.items()
        for match in pattern.finditer(text)
    ]
    found.sort(key=lambda name: (name.start, -name.end))
    kept: list[Name] = []
    for name in found:
        if not kept or name.start >= kept[-1].end:
            kept.append(name)
    return kept


def _spoiled(text: str, name: Name) -> bool:
    before = text[max(0, name.start - 40) : name.start]
    return bool(NAME_SPOILED_BEFORE.search(before) or NAME_SPOILED_AFTER.match(text, name.end))


def parse(setting: str, raw: str) -> float | int | None:
    """A figure as written ("0,35", ".65", "32,768"), None where it cannot be this setting."""
    raw = raw.replace("'", "").replace("\u202f", "").replace(" ", "").lstrip("+")
    raw = "0" if raw.isalpha() else raw
    whole = setting in ("max_tokens", "top_k")
    if whole:
        if re.fullmatch(r"\d{1,3}([.,]\d{3})+", raw):
            raw = raw.replace(",", "").replace(".", "")
        if not re.fullmatch(r"-?\d+(\.0+)?", raw):
            return None
    raw = raw.replace(",", ".")
    try:
        value = float(raw)
    except ValueError:
        return None
    low, high = LIMITS[setting]
    if not low <= value <= high:
        return None
    return int(value) if whole or re.fullmatch(r"-?\d+", raw) else value


def figures(text: str, topic: str | None = None) -> list[Figure]:
    """All settings with figures in a sentence. `topic` names figures that have no name."""
    everything = _all_names(text)
    known = [name for name in everything if not _spoiled(text, name)]
    numbers = list(NUMBER.finditer(text))
    parallel, used = _parallel(text, known, numbers)
    found = parallel
    for index, name in enumerate(known):
        if name in used:
            continue
        limit = min((n.start for n in everything if n.start > name.start), default=len(text))
        ahead = _after(text, name, limit, numbers)
        behind = _before(text, name, known, index, numbers)
        if behind and (not ahead or not FIELD.fullmatch(text[name.end : ahead[0].start])):
            ahead = [f for f in behind if not any(f.start == o.start for o in found)] or ahead
        found += ahead
    found += _unnamed_ranges(text, known, numbers, found)
    if everything == known:
        found += _unnamed_advice(text, known, numbers, found)
    if not everything and topic:
        found += _topical(text, topic, numbers)
    return sorted(found, key=lambda figure: figure.start)


def _after(text: str, name: Name, limit: int, numbers: list[re.Match[str]]) -> list[Figure]:
    """The figures between a name and the next name: one, or one for each mode."""
    inside = [m for m in numbers if name.end <= m.start() < limit]
    found: list[Figure] = []
    position = 0
    while position < len(inside):
        match = inside[position]
        if _counts_something_else(text, match, name.setting):
            position += 1
            continue
        figure, taken = _read(text, name.setting, inside[position:], name.start)
        start = found[-1].end if found else name.end
        gap = text[start : match.start()]
        fits = _goes_on(text, found[-1], figure, limit) if found and figure else _gap_is_fine(gap)
        if figure is None or not fits:
            break
        found.append(figure)
        position += taken
    return _one_of_many(text, found)


def _goes_on(text: str, last: Figure, figure: Figure, limit: int) -> bool:
    """Whether a further figure still is the name's: a list, another mode, a point in a span."""
    link = text[last.end : figure.start]
    if _enumerates(link) or figure.is_range != last.is_range:
        return True
    return bool(mentions(text[last.end : min(limit, figure.end + 40)]))


def _read(
    text: str, setting: str, matches: list[re.Match[str]], name_start: int
) -> tuple[Figure | None, int]:
    """The value or span that starts at the first match, and how many figures it takes."""
    first = matches[0]
    value = parse(setting, first[0])
    if value is None:
        return None, 1
    before = text[: first.start()].rstrip("\"'`([ ")
    for text_before in (before + " ", text[:name_start]):
        if EXCLUDED_BEFORE.search(text_before) and not re.search(r"\bfrom\s*$", text_before):
            return None, 1
    if len(matches) > 1:
        second = matches[1]
        link = text[first.end() : second.start()]
        to = TO.fullmatch(link.strip("\"'`") + (" " if link[-1:].isspace() else ""))
        other = parse(setting, second[0])
        spelled = AND.fullmatch(link.strip())
        if (
            to
            and other is not None
            and (not spelled or BETWEEN.search(before) or _within(text, second))
        ):
            low, high = sorted((value, other))
            if low < high:
                return Figure(setting, first.start(), second.end(), None, low, high, name_start), 2
    if AT_LEAST.search(before) or OR_MORE.match(text, first.end()):
        return Figure(setting, first.start(), first.end(), None, value, None, name_start), 1
    if AT_MOST.search(before) or OR_LESS.match(text, first.end()):
        return Figure(setting, first.start(), first.end(), None, None, value, name_start), 1
    return Figure(setting, first.start(), first.end(), value, name_start=name_start), 1


def _within(text: str, match: re.Match[str]) -> bool:
    """Whether "0,4 ile 0,6 arasında" and its like follow."""
    return bool(re.match(r"\s*(?:arası\w*|之间|の間|사이)", text[match.end() :]))


def _gap_is_fine(gap: str) -> bool:
    """Whether what stands between a name and a figure lets the figure be the name's."""
    if re.fullmatch(r"\s*[,;]\s*", gap):
        return False
    if FIELD.fullmatch(gap):
        return True
    if len(gap) > 90 or STRUCTURE_WORD.search(gap):
        return False
    gap = EXAMPLE.sub(" ", gap)
    rest = re.split(r"[,;|·]", gap)[1:]
    if rest and rest[-1] not in RECOMMENDS and rest[-1] not in IMPERATIVE:
        return False
    return not re.search(r"[!。]|\.\s", gap)


def _counts_something_else(text: str, match: re.Match[str], setting: str) -> bool:
    after = text[match.end() :]
    if setting == "max_tokens" and re.match(r"\s*(?:new\s+|output\s+)?tokens?\b", after):
        return False
    if COUNTS.match(after):
        return True
    before = text[max(0, match.start() - 30) : match.start()]
    if not PROPER_NOUN.search(before):
        return False
    word = before.rstrip(" -")
    return not any(name.end == len(word) for name in names(word))


def _one_of_many(text: str, found: list[Figure]) -> list[Figure]:
    """Drop a bare list of values ("0.2, 0.4 and 0.6"): nobody says which."""
    kept: list[Figure] = []
    run: list[Figure] = []
    for figure in found:
        if run and _enumerates(text[run[-1].end : figure.start]):
            run.append(figure)
            continue
        kept += run if len(run) == 1 else []
        run = [figure]
    return kept + (run if len(run) == 1 else [])


def _enumerates(link: str) -> bool:
    return bool(
        re.fullmatch(
            r"[\s\"'`]*(?:[,/|]|or|and|oder|und|ou|et|o|y|e|или|и|veya|ve|或|和|、)*[\s\"'`]*"
            r"(?:or|and|oder|und|ou|et|o|y|e|или|и|veya|ve|或|和)?[\s\"'`]*",
            link,
            re.IGNORECASE,
        )
    )


def _before(
    text: str, name: Name, known: list[Name], index: int, numbers: list[re.Match[str]]
) -> list[Figure]:
    """ "0.7 for temperature", "a 0.7 temperature", "0.95 (top-p)": the figure comes first."""
    start = known[index - 1].end if index else 0
    earlier = [m for m in numbers if start <= m.start() and m.end() <= name.start]
    if not earlier:
        return []
    match = earlier[-1]
    gap = text[match.end() : name.start]
    if not re.fullmatch(
        r"[\s\"'`]*(?:\(|(?:for|as|als|für|pour|como|para|per|для|für\s+die|için|de|as\s+the|for\s+the|on)\s+)?(?:the\s+|die\s+|la\s+|a\s+)?[\s\"'`]*",
        gap,
        re.IGNORECASE,
    ):
        return []
    figure, _ = _read(text, name.setting, [match], name.start)
    return [figure] if figure else []


def _parallel(
    text: str, known: list[Name], numbers: list[re.Match[str]]
) -> tuple[list[Figure], set[Name]]:
    """ "temperature and top-p of 0.6 and 0.95", "temp/top_p/top_k = 0.6/0.95/20"."""
    found: list[Figure] = []
    used: set[Name] = set()
    index = 0
    while index < len(known):
        run = [known[index]]
        while index + len(run) < len(known) and _enumerates(
            text[run[-1].end : known[index + len(run)].start]
        ):
            run.append(known[index + len(run)])
        index += len(run)
        settings = {name.setting for name in run}
        if len(run) < 2 or len(settings) < len(run):
            continue
        limit = known[index].start if index < len(known) else len(text)
        values = [m for m in numbers if run[-1].end <= m.start() < limit]
        values = values[: len(run)] if len(values) >= len(run) else []
        links = [text[a.end() : b.start()] for a, b in pairwise(values)]
        if not values or not all(_enumerates(link) for link in links):
            continue
        if not _gap_is_fine(text[run[-1].end : values[0].start()]):
            continue
        parsed = [parse(name.setting, m[0]) for name, m in zip(run, values, strict=True)]
        if any(value is None for value in parsed):
            continue
        used.update(run)
        found += [
            Figure(name.setting, m.start(), m.end(), value, name_start=name.start)
            for name, m, value in zip(run, values, parsed, strict=True)
        ]
    return found, used


def _unnamed_ranges(
    text: str, known: list[Name], numbers: list[re.Match[str]], found: list[Figure]
) -> Iterator[Figure]:
    """A span without a name after a value: "0.62, and anything in 0.5-0.7 is safe"."""
    taken = {position for f in found for position in range(f.start, f.end)}
    free = [m for m in numbers if m.start() not in taken]
    for first, second in pairwise(free):
        earlier = [f for f in found if f.end <= first.start() and f.value is not None]
        between = [n for n in known if earlier and earlier[-1].end <= n.start < first.start()]
        if not earlier or between or numbers.index(second) != numbers.index(first) + 1:
            continue
        figure, count = _read(text, earlier[-1].setting, [first, second], earlier[-1].name_start)
        if figure and count == 2:
            yield figure


def _unnamed_advice(
    text: str, known: list[Name], numbers: list[re.Match[str]], found: list[Figure]
) -> Iterator[Figure]:
    """ "Temperature was 0.7 in the old card; we now recommend 0.5."."""
    taken = {position for f in found for position in range(f.start, f.end)}
    for match in numbers:
        before = [name for name in known if name.end <= match.start()]
        if match.start() in taken or len({name.setting for name in before}) != 1:
            continue
        setting = before[0].setting
        clause = re.split(r"[,;:]\s|\s[–—]\s|\b(?:and|but)\b", text[: match.start()])[-1]
        counts = _counts_something_else(text, match, setting)
        after = re.split(r"[,;:.](?:\s|$)|\s[–—]\s", text[match.end() :])[0][:30]
        advised = clause in RECOMMENDS or after in RECOMMENDS
        if advised and not counts and not names(clause) and len(clause) < 60:
            figure, _ = _read(text, setting, [match], before[-1].start)
            if figure:
                yield figure


def _topical(text: str, topic: str, numbers: list[re.Match[str]]) -> list[Figure]:
    name = Name(topic, 0, 0)
    usable = [m for m in numbers if not _counts_something_else(text, m, topic)]
    if not usable or len(text[: usable[0].start()]) > 60:
        return []
    return _after(text, name, len(text), usable)
