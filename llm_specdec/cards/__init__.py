"""What model cards say about sampling: read once, kept with its source.

found      the data classes
front      the front matter: which base models it names
clean      running text without Markdown, HTML and LaTeX marks
blocks     a card as blocks with line numbers, and what introduces each
lexicon    the words: settings, advice, rejection, what does not count (many languages)
figures    settings and figures in a sentence          code, tables   the same for those
judge      does a sentence recommend its figures?      rejections     what it rejects
modes      thinking or not, tasks, presets             origin         "converted from …"
reader     all of these over one card
merge      contradictions, and the values that may be taken

Stored findings are used at every prompt, so that only `found` and `merge` are imported here:
the words of the reader take most of a second to compile.
"""

import json
import math
from typing import TYPE_CHECKING, Any, TypeGuard

from llm_specdec.cards.found import (
    CONFIG_KEYS,
    GENERATION_CONFIG,
    README,
    SETTINGS,
    Candidate,
    Card,
    Disagreement,
    Finding,
    Forbidden,
    Line,
    Range,
    Required,
    Unreadable,
)
from llm_specdec.cards.merge import disagreements, effective

if TYPE_CHECKING:
    from llm_specdec.cards.reader import Said

__all__ = [
    "GENERATION_CONFIG",
    "README",
    "SETTINGS",
    "Candidate",
    "Card",
    "Disagreement",
    "Finding",
    "Forbidden",
    "Line",
    "Range",
    "Required",
    "Unreadable",
    "read",
]


def read(texts: dict[str, dict[str, Any]], target: str) -> Card:
    """What the card of `target` and those of its bases say. Pure: `hub.read_card` gives texts.

    texts: repo → {README.md: text or None, generation_config.json: object, None, or a string
    where the file is no JSON}. A repo that is missing ends its branch, and a note says so.
    """
    from llm_specdec.cards.front import base_models
    from llm_specdec.cards.reader import Said, read_text

    card = Card(target=target)
    queue = [target]
    system: dict[str, str | None] = {}
    while queue:
        repo = queue.pop(0)
        if repo in card.lineage:
            continue
        if repo not in texts:
            note = f"{repo}: the card of this base was not read (gone, gated or out of reach)"
            card.notes += [note] if note not in card.notes else []
            continue
        readme = texts[repo].get(README)
        card.lineage[repo] = base_models(readme)
        said = read_text(readme, repo) if readme else Said()
        system[repo] = said.system_default
        _add(card, repo, said)
        _add_config(card, repo, texts[repo].get(GENERATION_CONFIG))
        _check_origin(card, repo, said.made_from)
        queue += card.lineage[repo]
    card.system_default = _nearest_system(card, system)
    card.disagreements += disagreements(card)
    card.effective = effective(card)
    return card


def _add(card: Card, repo: str, said: "Said") -> None:
    card.recommended += said.recommended
    card.ranges += said.ranges
    card.forbidden += said.forbidden
    card.required += said.required
    card.lines += said.lines
    card.candidates += [
        Candidate(line.repo, line.line, line.text)
        for line in said.lines
        if line.outcome != "taken" and any(char.isdigit() for char in line.text)
    ]
    shown = {about for line in said.lines if line.outcome == "shown" for about in line.about}
    if shown:
        card.open[repo] = sorted(shown)
    if said.is_cut:
        card.notes.append(f"{repo}: the card is very long: only its beginning was read")


def _add_config(card: Card, repo: str, config: Any) -> None:
    if config is None:
        return
    if isinstance(config, str):
        card.unreadable.append(Unreadable(repo, GENERATION_CONFIG, _why_unreadable(config)))
        return
    if not isinstance(config, dict):
        card.unreadable.append(Unreadable(repo, GENERATION_CONFIG, "it holds no object"))
        return
    for key, setting in CONFIG_KEYS.items():
        value = config.get(key)
        if _is_number(value):
            text = f'"{key}": {json.dumps(value)}'
            finding = Finding(setting, value, None, repo, GENERATION_CONFIG, None, text)
            card.recommended.append(finding)


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number: 1e999 is JSON, and infinite for Python."""
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    return whole and -math.inf < value < math.inf


def _why_unreadable(text: str) -> str:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        return f"no valid JSON: {error.msg}, line {error.lineno}"
    except (ValueError, RecursionError) as error:
        return f"no usable JSON: {error}"
    return "NaN and Infinity are no JSON" if isinstance(found, dict) else "it holds no object"


def _check_origin(card: Card, repo: str, made_from: list[str]) -> None:
    """The body may name another origin than the front matter: nobody can say which is right."""
    named = card.lineage[repo]
    made = [name for name in made_from if name.lower() != repo.lower()]
    known = {name.lower() for name in named}
    if named and made and not any(name.lower() in known for name in made):
        card.disagreements.append(Disagreement("base_model", None, (*named, *made[:1])))


def _nearest_system(card: Card, system: dict[str, str | None]) -> str | None:
    """The system prompt of the nearest card, unless that card or a nearer one speaks against it."""
    for repo, text in system.items():
        if text is not None:
            return text
        if "system" in card.open.get(repo, ()):
            return None
        if any(f.repo == repo and f.setting == "system" for f in card.forbidden):
            return None
    return None
