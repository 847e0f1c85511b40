"""What a sentence rejects: settings, a system prompt, greedy decoding."""

import re
from collections.abc import Iterator

from llm_specdec.cards import lexicon as lex
from llm_specdec.cards.figures import figures, names
from llm_specdec.cards.judge import Verdict, cues

TEMPERATURE_ZERO = re.compile(
    r"\b(?:temp(?:erature|\.)?|T)\s*(?:[=:]|of|to|at)?\s*(?:0(?:\.0+)?|zero)(?![\d.,]\d|\w)",
    re.IGNORECASE,
)
CLAUSE = re.compile(
    r"[;。.!?](?=\s|$)|:\s|\s[–—]\s|,\s(?=(?:and|so|but|und|et|y|e|и|ve|aber|mais|pero|mas|но|ama)\b)"
)


def rejections(sentence: str, context: Verdict) -> Iterator[tuple[str, int]]:
    """(setting, offset) of each rejection in a sentence."""
    if context is Verdict.QUOTED:
        return
    subjects = list(_subjects(sentence))
    question = max(sentence.rfind("?"), sentence.rfind("？"))
    rejected: list[tuple[str, int, int]] = []
    for setting, start, end in subjects:
        if question >= 0 and start < question:
            if _answered_no(sentence, question):
                rejected.append((setting, start, end))
        elif _rejected(sentence, start, end, context) or _joined(sentence, start, rejected):
            rejected.append((setting, start, end))
    for setting, start, _ in rejected:
        yield setting, start


def _subjects(sentence: str) -> Iterator[tuple[str, int, int]]:
    """Settings without a figure of their own, system prompts, greedy decoding."""
    valued = {figure.name_start for figure in figures(sentence)}
    found = [
        (name.setting, name.start, name.end)
        for name in names(sentence)
        if name.start not in valued and name.setting not in ("temperature", "max_tokens")
    ]
    found += [("system", *span) for span in lex.SYSTEM.spans(sentence)]
    found += [("greedy", *span) for span in lex.GREEDY.spans(sentence)]
    found += [("greedy", *m.span()) for m in TEMPERATURE_ZERO.finditer(sentence)]
    return iter(sorted(found, key=lambda entry: entry[1]))


def _clause(sentence: str, start: int, end: int) -> tuple[str, str]:
    """The clause around a span, as the text before it and after it."""
    before = sentence[:start]
    cuts = [m.end() for m in CLAUSE.finditer(before)]
    after = sentence[end:]
    stop = CLAUSE.search(after, 1) if after[:1] == ":" else CLAUSE.search(after)
    return before[cuts[-1] if cuts else 0 :], after[: stop.start() + 1 if stop else None]


def _rejected(sentence: str, start: int, end: int, context: Verdict) -> bool:
    before, after = _clause(sentence, start, end)
    if context is Verdict.ADVICE and lex.WITHOUT.match(before.lstrip()) and not after.strip(" .;!"):
        return True  # "Without top-k." in a list of advice
    clause = f"{before} {after}"
    if clause in lex.DESCRIBES or lex.ADJECTIVE_BEFORE.search(before):
        return False
    if {c.kind for c in cues(clause)} & {"measured", "trained", "tried", "withdrawn", "others"}:
        return False
    if lex.ONLY_IF.search(before) or _is_aside(before) or _is_undone(before, after):
        return False
    if lex.NEGATES_BEFORE.search(before):
        return not re.match(
            r"[\s\w]*\b(?:above|below|over|under|longer|larger|higher|lower|than|values?\s+\w+\s+\d)",
            after,
        )
    if lex.LEAVE_OUT.search(before) and lex.LEFT_OUT.match(after):
        return True
    return bool(lex.NEGATES_AFTER.match(after)) and not lex.ONCE.match(before)


def _is_aside(before: str) -> bool:
    """ "Without top-k it loops", "to avoid top-k artefacts": nobody asks for it."""
    asks = before in lex.RECOMMENDS or before in lex.IMPERATIVE
    without = [m.start() for m in lex.WITHOUT.finditer(before)]
    if without:
        ahead = before[: without[-1]]
        return not (ahead in lex.RECOMMENDS or ahead in lex.IMPERATIVE)
    return bool(lex.TO_DO.search(before)) and not (asks and before in lex.RECOMMENDS)


def _is_undone(before: str, after: str) -> bool:
    """Two negations, "not both at the same time", or a bare "no" in a statement of fact."""
    near = lex.JOINS.split(before)[-1]
    if len(lex.NEGATION.findall(near)) > 1 or lex.TOGETHER.search(after):
        return True
    bare = re.search(r"\bno\s+(?:\w+\s+)?$", near, re.IGNORECASE)
    said = near[: bare.start()].strip(" -*•\n") if bare else ""
    return bool(said) and said not in lex.RECOMMENDS and said not in lex.IMPERATIVE


def _joined(sentence: str, start: int, rejected: list[tuple[str, int, int]]) -> bool:
    """ "No top-p and top-k": what is joined to a rejected name shares its fate."""
    if not rejected:
        return False
    link = sentence[rejected[-1][2] : start]
    return bool(
        re.fullmatch(
            r"[\s`\"']*(?:,|/|and|or|nor|und|noch|oder|et|ni|y|o|e|nem|né|и|ни|ve|veya|i|ani|en|noch|和|或|及|と|や|와|과)*\s*(?:or|nor|and|no|a|any)?[\s`\"']*",
            link,
            re.IGNORECASE,
        )
    )


def _answered_no(sentence: str, question: int) -> bool:
    asked, answer = sentence[:question], sentence[question + 1 :]
    return bool(lex.SAYS_NO.match(answer)) and not lex.SAYS_NEEDLESS.search(asked + answer)


def says_greedy(sentence: str) -> int | None:
    """Where a sentence speaks for greedy decoding; None where it rejects or only names it."""
    spans = lex.GREEDY.spans(sentence)
    if not spans or any(s == "greedy" for s, _ in rejections(sentence, Verdict.NEUTRAL)):
        return None
    start, end = spans[0]
    before, after = _clause(sentence, start, end)
    return None if NEGATION.search(f"{before} {after}") else start


NEGATION = re.compile(
    r"\b(?:not|no|never|than|instead|unlike|or|over|from|nicht|kein\w*|nie|pas|jamais|nunca|não|non|mai|не|нельзя|değil|geen|niet)\b"
    r"|n't|\w+(?:mayın|meyin|maz|mez)\b|不|勿|ない|避け|않|마세요|피하",
    re.IGNORECASE,
)
