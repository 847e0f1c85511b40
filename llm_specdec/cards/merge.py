"""Where cards contradict each other, and which values may be taken without asking.

Two pure functions over a `Card` whose findings are in place. The rules are those of the
design: a derivative overrides its base, text and generation_config that differ are never
resolved, a rejection is not undone by a base.
"""

from collections.abc import Iterable

from llm_specdec.cards.found import README, Card, Disagreement, Finding, Range, Value

THINKING = ("thinking", "non-thinking")


class _Absent:
    """Sentinel: this repo has spoken, and what it says gives no value."""


ABSENT = _Absent()


def disagreements(card: Card) -> list[Disagreement]:
    """All contradictions within one repo, then those between two bases of one model."""
    found: list[Disagreement] = []
    for repo in card.lineage:
        for setting in _settings(card.recommended):
            found += _within(card, repo, setting)
    for bases in card.lineage.values():
        found += _between(card, [base for base in bases if base in card.lineage])
    return found


def effective(card: Card) -> dict[str, dict[str, Value]]:
    """Mode (or "default") → setting → the value that may be taken."""
    named = [*(f.mode for f in card.recommended), *(r.mode for r in card.ranges)]
    modes = dict.fromkeys(mode for mode in named if mode)
    result: dict[str, dict[str, Value]] = {}
    for mode in (None, *modes):
        values = {}
        for setting in _settings(card.recommended):
            value = _resolve(card, card.target, setting, mode, (), ())
            if value is not None and not isinstance(value, _Absent):
                values[setting] = value
        result[mode or "default"] = values
    return result


def _settings(findings: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(finding.setting for finding in findings))


def _of(card: Card, repo: str, setting: str) -> list[Finding]:
    return [f for f in card.recommended if f.repo == repo and f.setting == setting]


def _values(findings: Iterable[Finding]) -> list[Value]:
    return list(dict.fromkeys(finding.value for finding in findings))


def _rejected(card: Card, repo: str) -> set[str]:
    return {entry.setting for entry in card.forbidden if entry.repo == repo}


def _within(card: Card, repo: str, setting: str) -> list[Disagreement]:
    findings = _of(card, repo, setting)
    text = [f for f in findings if f.file == README]
    config = _values(f for f in findings if f.file != README)
    found = []
    for mode in dict.fromkeys(f.mode for f in findings):
        values = _values(f for f in findings if f.mode == mode)
        if len(values) > 1:
            found.append(Disagreement(setting, mode, tuple(values)))
    by_mode = _values(f for f in text if f.mode in THINKING)
    modeless = any(f.mode is None for f in text)
    if config and not modeless and any(value != config[0] for value in by_mode):
        found.append(Disagreement(setting, None, tuple(_unique([*by_mode, *config]))))
    rejected = _rejected(card, repo)
    return found + [
        Disagreement(setting, None, (value, "forbidden"))
        for value in config
        if setting in rejected or _is_greedy(setting, value, rejected)
    ]


def _is_greedy(setting: str, value: Value, rejected: set[str]) -> bool:
    return "greedy" in rejected and setting == "temperature" and value == 0


def _unique(values: list[Value]) -> list[Value]:
    return list(dict.fromkeys(values))


def _between(card: Card, bases: list[str]) -> list[Disagreement]:
    if len(bases) < 2:
        return []
    findings = [f for f in card.recommended if f.repo in bases]
    found = []
    for setting in _settings(findings):
        for mode in dict.fromkeys(f.mode for f in findings if f.setting == setting):
            each = [_values(f for f in _of(card, b, setting) if f.mode == mode) for b in bases]
            values = _unique([value for own in each for value in own])
            if len([own for own in each if own]) > 1 and len(values) > 1:
                found.append(Disagreement(setting, mode, tuple(values)))
    return found


def _resolve(
    card: Card,
    repo: str,
    setting: str,
    mode: str | None,
    ranges: tuple[Range, ...],
    path: tuple[str, ...],
) -> Value | _Absent | None:
    """The value that `repo` or its bases give; None = nobody says anything.

    ranges: spans stated by nearer repos; path: the nearer repos, so that a cycle ends.
    """
    own = _own(card, repo, setting, mode, ranges)
    if own is not None:
        return own
    if setting in card.open.get(repo, ()):
        return ABSENT
    rejected = _rejected(card, repo)
    if setting in rejected or _base_is_doubtful(card, repo):
        return None
    ranges += tuple(_ranges(card, repo, setting, _specific_to_general(mode)))
    path += (repo,)
    resolved = (
        _resolve(card, base, setting, mode, ranges, path)
        for base in card.lineage[repo]
        if base in card.lineage and base not in path
    )
    given = [value for value in resolved if value is not None]
    if not given:
        return None
    if any(value != given[0] for value in given):
        return ABSENT
    value = given[0]
    if not isinstance(value, _Absent) and _is_greedy(setting, value, rejected):
        return ABSENT
    return value


def _base_is_doubtful(card: Card, repo: str) -> bool:
    """Whether the body of `repo` names another origin than its front matter."""
    bases = set(card.lineage[repo])
    return any(d.setting == "base_model" and bases & set(d.values) for d in card.disagreements)


def _specific_to_general(mode: str | None) -> list[str | None]:
    if mode is None:
        return [None]
    return list(dict.fromkeys([mode, mode.partition(":")[0], None]))


def _ranges(card: Card, repo: str, setting: str, modes: list[str | None]) -> list[Range]:
    return [r for r in card.ranges if r.repo == repo and r.setting == setting and r.mode in modes]


def _own(
    card: Card, repo: str, setting: str, mode: str | None, nearer: tuple[Range, ...]
) -> Value | _Absent | None:
    findings = _of(card, repo, setting)
    modes = _specific_to_general(mode)
    for index, level in enumerate(modes):
        at_level = [f for f in findings if f.mode == level]
        values = _values(at_level)
        if not values:
            continue
        if len(values) > 1 or (level is None and _contradicted(card, repo, setting)):
            return ABSENT
        from_text = any(f.file == README for f in at_level)
        if not from_text and setting in card.open.get(repo, ()):
            return ABSENT
        narrower = modes[:index] if from_text else modes[: index + 1]
        spans = (*nearer, *_ranges(card, repo, setting, narrower))
        return values[0] if all(values[0] in span for span in spans) else ABSENT
    return _shared(findings, nearer) if mode is None else None


def _contradicted(card: Card, repo: str, setting: str) -> bool:
    return any(d.mode is None for d in _within(card, repo, setting))


def _shared(findings: list[Finding], nearer: tuple[Range, ...]) -> Value | _Absent | None:
    """For `default`: the one value of all modes, when both thinking modes are among them."""
    if not {f.mode for f in findings}.issuperset(THINKING):
        return None
    values = _values(findings)
    if len(values) == 1:
        return values[0] if all(values[0] in span for span in nearer) else ABSENT
    on, off = (set(_values(f for f in findings if f.mode == mode)) for mode in THINKING)
    return ABSENT if on != off else None
