"""Whether words recommend, reject or rule out the figures that stand with them.

A sentence is judged in segments (cut at commas, semicolons, dashes): the cue in a figure's
own segment decides, then the sentence's other cues, then what introduces the block.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from llm_specdec.cards import lexicon as lex
from llm_specdec.cards.clean import BREAK
from llm_specdec.cards.figures import names

SENTENCE_END = re.compile(
    rf"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bapprox\.)(?<!\bca\.)(?<!\bz\.B\.)(?<!\bpen\.)(?<!\btemp\.)(?<!\brep\.)[\"')\]]*\s+(?=\S)|(?<=[。！？])|{BREAK}\n?",
    re.IGNORECASE,
)
SEGMENT_END = re.compile(
    r"[;:。]|,(?=\s)|\s[–—-]\s|[()]|\s(?:but|however|yet|while|whereas|aber|mais|pero|mas|ma|но|а|ama|ancak)\s|但|而"
)
NOT_ADVICE = re.compile(
    r"\b(?:not|n't|never|nicht|no\s+se|não|non|ne|nie|niet|не)\s+(?:\w+\s+){0,2}(?:recommend\w*|suggest\w*|advis\w*|best|optimal|ideal|empfohlen|empfehl\w*|recommand\w*|conseill\w*|recomend\w*|recomiend\w*|consigliat\w*|raccomandat\w*|рекоменд\w*|совет\w*|zalec\w*|aanbevolen|should|must)"
    r"|\b(?:recommend|advis|suggest)\w*\s+against\b|\b(?:should|must|to)\s+be\s+avoided\b"
    r"|(?:\b(?:do\s+not|never|must\s+not|should\s+not|cannot)|n't)\s+(?:ever\s+)?(?:use|set|run|go|try|choose|pick|raise|push|apply)\b"
    r"|n'est\s+pas\s+(?:recommand|conseill)\w*|(?:should|must|shouldn't|mustn't)\s*(?:not|never)|öner(?:il)?(?:mez|miyor|miyoruz)\w*|不(?:推荐|建议)|推奨(?:しません|されません)|非推奨|권장하지",
    re.IGNORECASE,
)
PURPOSE = re.compile(
    r"\b(?:for|to|when|during|für|pour|para|per|для|при|için)\s+(?:(?:the|our|re|your|a|all|these|those|any|die|das|les|nos|las|los|as|os|le|i)\s+)?(?:\w+\s+){0,2}?$|^\s*(?:to|um)\s",
    re.IGNORECASE,
)


# "If you want …", "to switch it off, set …": for some, not for all.
HOW_TO = re.compile(
    r"\W*(?:if|should\s+you|wenn|falls|si\s+vous|si\s+quiere\w*|se\s+vuoi|se\s+quiser|если|eğer|to\s+(?:disable|enable|turn|switch|deactivate|activate))\b|\W*(?:如果|若)",
    re.IGNORECASE,
)


class Verdict(Enum):
    """What a heading, label or introducing sentence makes of the block below it."""

    ADVICE = "advice"
    NEUTRAL = "neutral"
    OUT = "out"  # benchmarks, training …: only an explicit recommendation inside counts
    QUOTED = "quoted"  # sample output, another card, old advice: nothing inside counts


@dataclass(frozen=True)
class Cue:
    start: int
    end: int
    kind: str


KINDS = (
    ("withdrawn", lex.WITHDRAWN),
    ("others", lex.OTHERS),
    ("measured", lex.MEASURED),
    ("trained", lex.TRAINED),
    ("tried", lex.TRIED),
    ("shown", lex.SHOWN),
    ("fails", lex.FAILS),
    ("advice", lex.RECOMMENDS),
    ("imperative", lex.IMPERATIVE),
)
RULES_OUT = frozenset({"withdrawn", "others", "measured", "trained", "tried", "shown", "against"})


LONGEST = 2_000  # characters; more is no sentence


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences; a question and its short answer stay together."""
    cuts = [0, *(m.end() for m in SENTENCE_END.finditer(text)), len(text)]
    spans = [(a, b) for a, b in pairwise(cuts) if text[a:b].strip() and b - a <= LONGEST]
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        asked = joined and re.search(r"[?？][\"')\]\s]*$", text[joined[-1][0] : joined[-1][1]])
        if asked:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


@lru_cache(maxsize=64)
def cues(text: str) -> list[Cue]:
    """Cue words in order. Where two overlap, the kind that rules out comes first."""
    prevented = [m.span() for m in lex.PREVENTS.finditer(text)]
    found = [Cue(*m.span(), "against") for m in NOT_ADVICE.finditer(text)]
    for kind, words in KINDS:
        for start, end in words.spans(text):
            if any(start < c.end and c.start < end for c in found):
                continue
            if kind == "fails" and any(a <= start < b for a, b in prevented):
                continue
            if kind == "imperative" and lex.NOT_IMPERATIVE.search(text[:start]):
                continue
            found.append(Cue(start, end, kind))
    return sorted(found, key=lambda cue: cue.start)


def verdict(text: str) -> Verdict:
    """A heading, label or introducing sentence: what it makes of the block below it."""
    if text in lex.PASTED:
        return Verdict.QUOTED
    kinds = {cue.kind for cue in cues(text)}
    if "withdrawn" in kinds:
        return Verdict.QUOTED
    if "advice" in kinds:
        if kinds & {"against", "others", "trained"}:
            return Verdict.OUT
        if kinds & {"measured", "tried", "shown"}:
            return Verdict.NEUTRAL
        about_other = text in lex.ABOUT_OTHER and text not in lex.ABOUT_SETTINGS
        return Verdict.NEUTRAL if about_other else Verdict.ADVICE
    if _is_quote_label(text):
        return Verdict.QUOTED
    if kinds & RULES_OUT:
        return Verdict.OUT
    if "imperative" in kinds and text in lex.ABOUT_SETTINGS and _names_settings(text):
        return Verdict.ADVICE
    return Verdict.NEUTRAL


SETTING_NOUN = re.compile(
    r"\b(?:settings|parameters|params|values|sampler|flags|options|preset|recipe|Einstellungen|Parameter|Werte|paramètres|réglages|valeurs|parámetros|ajustes|valores|parâmetros|parametri|impostazioni|valori|ayarlar\w*|parametreler\w*|настройк\w*|параметр\w*|значени\w*)\b|参数|设置|設定|パラメータ|설정|파라미터",
    re.IGNORECASE,
)


def _names_settings(text: str) -> bool:
    return bool(SETTING_NOUN.search(text))


def _is_quote_label(text: str) -> bool:
    """ "Output:", "Sample generation", "User:": what follows is not the author's advice."""
    bare = text.strip().rstrip(":").strip()
    return len(bare.split()) <= 6 and any(
        end - start > 0.6 * len(bare) for start, end in lex.QUOTED.spans(bare)
    )


def is_advice(
    sentence: str, start: int, end: int, context: Verdict, question: bool = False
) -> bool:
    """Whether the figure at start:end of a sentence is recommended.

    context: what stands around the sentence; question: it is the answer to "which top-p?".
    """
    if context is Verdict.QUOTED:
        return False
    found = [cue for cue in cues(sentence) if not _is_aside(sentence, cue, start)]
    first, last = _segment(sentence, start, end)
    here = {cue.kind for cue in found if first <= cue.start < last}
    everywhere = {cue.kind for cue in found}
    if _ruled_out_here(here, everywhere):
        return False
    if "advice" in everywhere:
        led = here & {"advice", "imperative"} or not _nearer_out(found, start)
        return bool(led) and not _is_purpose(sentence, found)
    elsewhere = everywhere & RULES_OUT
    if elsewhere and elsewhere <= {"against", "others"} and "imperative" in here:
        return True  # "Use min-p 0.1; do not set top-p."
    if elsewhere or HOW_TO.match(sentence):
        return False
    if "imperative" in (here if context is Verdict.OUT else everywhere):
        return True
    return question or (context is Verdict.ADVICE and not _observes(sentence, start))


def _is_aside(sentence: str, cue: Cue, start: int) -> bool:
    """ "0.05 (llama.cpp's default is 0.1)": what a bracket says of others, or of failing."""
    if cue.kind not in ("others", "fails"):
        return False
    brackets = re.finditer(r"\([^()]*\)", sentence)
    return any(
        b.start() < cue.start < b.end() and not b.start() < start < b.end() for b in brackets
    )


def _ruled_out_here(here: set[str], everywhere: set[str]) -> bool:
    """Whether the figure's own segment speaks of something else than advice."""
    if here & {"withdrawn", "others", "against"}:
        return True
    if "advice" in here:
        return False
    example = here & RULES_OUT == {"shown"} and "advice" in everywhere
    failure = "fails" in here and "imperative" not in here
    return failure or (bool(here & RULES_OUT) and not example)


OBSERVES = re.compile(
    r"""^\W*(?:at|with|above|below|over|under|beyond|using|when|if|from|once|bei|mit|ab|über|unter|wenn|avec|à|au-delà|si|con|a|por\s+encima|com|acima|sopra|oltre|se|при|с|выше|ниже|если|met|bij|przy|z|w)\s+
    (?:(?:a|an|the|any|einer?|eine[mr]|une?|una?|um|uma|la|le|el|o)\s+)?(?:\w+\s+){0,2}$""",
    re.IGNORECASE | re.VERBOSE,
)


def _observes(sentence: str, start: int) -> bool:
    """ "At a temperature of 1.2 it mixes languages": what happens, not what to do."""
    before = sentence[:start]
    known = names(before)
    after = re.split(r"[.;](?=\s|$)", sentence[start:])[0]
    return bool(known) and bool(OBSERVES.match(before[: known[0].start])) and len(after.split()) > 3


def _segment(sentence: str, start: int, end: int) -> tuple[int, int]:
    cuts = [m.span() for m in SEGMENT_END.finditer(sentence)]
    before = [b for _, b in cuts if b <= start]
    after = [a for a, _ in cuts if a >= end]
    return (before[-1] if before else 0, after[0] if after else len(sentence))


def _is_purpose(sentence: str, found: list[Cue]) -> bool:
    """ "For reproducing our scores we recommend …": advice for another purpose than use."""
    return any(
        cue.kind in ("measured", "trained") and PURPOSE.search(sentence[: cue.start])
        for cue in found
    )


def _nearer_out(found: list[Cue], start: int) -> bool:
    """Whether the last cue before the figure rules it out."""
    before = [c for c in found if c.start < start and c.kind in RULES_OUT | {"advice"}]
    return bool(before) and before[-1].kind in RULES_OUT


def is_required(sentence: str, start: int, end: int) -> bool:
    """Whether the figure's clause, or the cue that governs a list of figures, says essential."""
    first, last = _segment(sentence, start, end)
    advice = [cue for cue in cues(sentence) if cue.kind == "advice"]
    own = [cue for cue in advice if first <= cue.start < last]
    before = [cue for cue in advice if cue.start < start]
    governing = own or before[-1:] or advice[:1]
    clause = sentence[min(first, *(c.start for c in governing)) :] if governing else ""
    return clause not in lex.NOT_REQUIRED and any(
        sentence[cue.start : cue.end] in lex.REQUIRES for cue in governing
    )
