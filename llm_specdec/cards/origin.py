"""Which model a card's body says that the repository was made from."""

import re

from llm_specdec.cards.blocks import Block
from llm_specdec.cards.words import one_of, words

NAME = (
    r"[`\[(*\s\"']{0,5}(?:the\s+|model\s+)?[`\[(*\"']{0,5}"
    r"(?P<name>(?<![\w./-])[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}\w)"
)


def made_from(blocks: list[Block]) -> list[str]:
    """OWNER/NAME of each model that the body names as this repository's origin."""
    before = re.compile(NAME, re.IGNORECASE)
    after = re.compile(rf"[`\])*\s]{{0,5}}{one_of('origin.made_after')}", re.IGNORECASE)
    found = []
    for block in blocks:
        text = block.text.text
        if block.kind != "text" or block.quoted or "/" not in text:
            continue
        for start, end in words("origin.made_from").spans(text):
            name = before.match(text, end)
            unspaced = text[start:end].isalpha() and not text[start:end].isascii()
            if name and (not unspaced or after.match(text, name.end()) or end - start > 3):
                found.append(name["name"])
        found += [m["name"] for m in before.finditer(text) if after.match(text, m.end())]
    return list(dict.fromkeys(found))
