"""Prompts of a wanted length: built in (three classes of text), or from a user's file.

Built-in material is written here and dealt out by a fixed seed, so it never repeats itself at
any length (repeated text would flatter lookup) and is the same on every machine.
"""

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from llm_specdec.errors import UsageError

CLASSES = ("reasoning", "code", "prose")
DEFAULT_TOKENS = 2150

Count = Callable[[str], int]  # a user message → its tokens as a prompt, chat template included

QUESTIONS = {
    "reasoning": "Which boat carried the most crates in total, and which harbour received the "
    "most? Work it out step by step, one boat at a time, then give the answer.",
    "code": "Write a docstring and a pytest test for each of the last five functions above.",
    "prose": "Write an essay about this stretch of coast and the people who kept these notes.",
}

BOATS = ("Marigold", "Heron", "Old Tom", "Saltwife", "Juniper", "Lantern", "Third Sister", "Wren")
HARBOURS = ("Ardnish", "Colmouth", "Fellgate", "Nessley", "Port Harran", "Quayle", "Stowbeck")
GOODS = ("pears", "slate", "lamp oil", "wool", "copper wire", "salt", "barley", "paper", "rope")
DELAYS = (
    "waited for the tide",
    "lost an hour to fog",
    "was turned back once by the swell",
    "unloaded by hand because the crane had failed",
    "left two men ashore",
    "carried no passengers",
    "took on water at the mole",
)
WEATHER = (
    "The wind came round to the north before dawn",
    "Rain fell on and off until the lamps were lit",
    "It was clear enough to count the houses across the sound",
    "Fog lay on the water and the bell rang all morning",
    "A dry east wind rattled the shutters",
    "The sea was flat and the colour of pewter",
)
SIGHTS = (
    "the women at the slipway were mending nets that had been torn on the wreck",
    "a boy led a grey horse along the wall and would not say whose it was",
    "the schoolmaster measured the tide mark again and wrote it on the door",
    "someone had whitewashed the old customs house up to the second window",
    "three strangers asked the way to the lighthouse and then went the other way",
    "the ferryman slept in his boat with the oars across his chest",
    "the baker gave away what was left because the road was closed",
    "swallows had begun to build under the roof of the fish market",
)
THOUGHTS = (
    "and nobody spoke of it afterwards",
    "which my mother would have called an omen",
    "so I copied the figures into the second book as well",
    "though the older men said it had been worse in the year of the ice",
    "and for once the light was lit on time",
    "and I thought of the letter that still lay unanswered",
)
NOUNS = ("crate", "tide", "berth", "toll", "cargo", "signal", "lamp", "ledger", "voyage", "crew")
VERBS = ("count", "merge", "rank", "filter", "group", "scale", "check", "split", "total", "sort")
FIELDS = ("weight", "price", "age", "length", "depth", "delay", "height", "width")
BODIES = (
    "    return [{n} for {n} in {n}s if {n}.{f} > {k}]",
    "    found = {{}}\n    for {n} in {n}s:\n        found.setdefault({n}.{f} // {k}, [])"
    ".append({n})\n    return found",
    "    return sum({n}.{f} * {k} for {n} in {n}s if {n}.{f} is not None)",
    "    best = sorted({n}s, key=lambda {n}: -{n}.{f})\n    return best[:{k}]",
    "    if not {n}s:\n        raise ValueError('no {n}s')\n"
    "    return max({n}.{f} for {n} in {n}s) / {k}",
    "    left = [{n} for {n} in {n}s if {n}.{f} < {k}]\n"
    "    right = [{n} for {n} in {n}s if {n}.{f} >= {k}]\n    return left, right",
)


def built_in(text: str, tokens: int, count: Count) -> str:
    """A message of class `text` that has as many tokens as fit into `tokens`, a few fewer at most.

    Raises UsageError where the question alone is longer than that.
    """

    def message(pieces: int) -> str:
        return "".join(words[:pieces]) + f"\n\n{QUESTIONS[text]}"

    # No tokenizer makes a word of less than one token, so `tokens` words are always enough.
    words = list(itertools.islice(_words(text), tokens))
    fits, too_many = 0, len(words) + 1
    if (least := count(message(0))) > tokens:
        raise UsageError(
            f"a prompt of {tokens} tokens holds no question of {text}, which has {least}: "
            "give --context more"
        )
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if count(message(middle)) <= tokens:
            fits = middle
        else:
            too_many = middle
    return message(fits)


def from_file(path: Path) -> list[tuple[str, str]]:
    """(name, prompt) of each line of a .jsonl file (`prompt`, perhaps `id` or `class`), or the
    whole text of any other file. Raises UsageError."""
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    found = list(_lines(path, content)) if path.suffix == ".jsonl" else [(path.stem, content)]
    if not found or not all(prompt.strip() for _, prompt in found):
        raise UsageError(f"{path} holds no prompt, or an empty one")
    if len({name for name, _ in found}) < len(found):
        raise UsageError(f"{path} has two prompts of one id")
    return found


def _lines(path: Path, content: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            prompt = entry["prompt"]
            if not isinstance(prompt, str):
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UsageError(f'{path}:{number} must be JSON such as {{"prompt": "…"}}') from None
        yield str(entry.get("id", number)), prompt


def _words(text: str) -> Iterator[str]:
    """Words of a class without end, each with the space or line break that follows it."""
    deal = random.Random(f"llm-specdec {text}")
    paragraph = {"reasoning": _voyage, "code": _function, "prose": _note}[text]
    for number in itertools.count(1):
        yield from re.findall(r"\S+\s*", paragraph(deal, number) + "\n")


def _voyage(deal: random.Random, number: int) -> str:
    return (
        f"Voyage {number}: the {deal.choice(BOATS)} sailed from {deal.choice(HARBOURS)} to "
        f"{deal.choice(HARBOURS)} with {deal.randint(3, 240)} crates of {deal.choice(GOODS)}, "
        f"{deal.choice(DELAYS)}, and charged {deal.randint(2, 90)} shillings a crate."
    )


def _function(deal: random.Random, number: int) -> str:
    noun, field = deal.choice(NOUNS), deal.choice(FIELDS)
    body = deal.choice(BODIES).format(n=noun, f=field, k=deal.randint(2, 60))
    return f"def {deal.choice(VERBS)}_{noun}s_by_{field}_{number}({noun}s):\n{body}\n"


def _note(deal: random.Random, number: int) -> str:
    return (
        f"Day {number}, {deal.choice(HARBOURS)}. {deal.choice(WEATHER)}. "
        f"By {deal.choice(('noon', 'evening', 'first light', 'low water'))} "
        f"{deal.choice(SIGHTS)}, {deal.choice(THOUGHTS)}."
    )
