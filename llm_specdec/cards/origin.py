"""Which model a card's body says that the repository was made from."""

import re

from llm_specdec.cards.blocks import split

NAME = (
    r"[`\[(*\s\"']*(?:the\s+|model\s+)?[`\[(*\"']*(?P<name>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\w)"
)
MADE_FROM = re.compile(
    r"""(?:\b(?:converted|conversion|quanti[sz]ed|made|built|derived|produced|exported|ported|packed|repacked|fine-?tuned|finetuned|abliterated|created|pruned|dequanti[sz]ed)
    \b(?:(?!\bdata|\bwith\b|\bby\b|/)[^.;])*?\bfrom\b
    |\b(?:quant\w*|versions?|editions?|builds?|conversions?|fine-?tunes?|finetunes?|cop(?:y|ies)|variants?|GGUFs?|weights?|port|tune)\s+(?:\w+\s+){0,2}?of
    |\bfine-?tun(?:e|ed|ing)\s+(?:of|on\s+top\s+of)
    |\b(?:konvertiert|umgewandelt|quantisiert|erstellt|abgeleitet|erzeugt)\s+(?:\w+\s+){0,2}aus|(?:Konvertierung|Quantisierung|Version|Fassung)\s+von
    |\b(?:converti\w*|quantifié\w*|dérivé\w*|issue?s?|créé\w*|obtenue?s?)\s+(?:\w+\s+){0,2}(?:de|depuis|du|à\s+partir\s+(?:de|du))
    |\b(?:convertid[oa]s?|cuantizad[oa]s?|derivad[oa]s?|cread[oa]s?|quantizad[oa]s?|criad[oa]s?)\s+(?:\w+\s+){0,3}(?:de|desde|a\s+partir\s+(?:de|do))
    |\b(?:convertit[oaie]|quantizzat[oaie]|derivat[oaie]|creat[oaie])\s+(?:\w+\s+){0,2}(?:da|dal)
    |(?:конвертирован|преобразован|получен|создан|квантован|собран)\w*\s+(?:\w+\s+){0,3}из|(?:версия|сборка)\s+модели
    |(?:基于|由|从|根据))""",
    re.IGNORECASE | re.VERBOSE,
)
CJK_BEFORE = re.compile(
    NAME
    + r"[`\])*\s]*(?:模型)?(?:转换|量化|微调|から(?:変換|量子化|作成|派生)|を(?:変換|量子化)|에서\s*(?:변환|양자화))"
)
TURKISH = re.compile(
    NAME
    + r"[`\])*\s]*(?:modelinden|'?d[ae]n)\s+(?:\w+\s+){0,4}(?:dönüştürül|nicelen|türetil|üretil)"
)


def made_from(card: str) -> list[str]:
    """OWNER/NAME of each model that the body names as this repository's origin."""
    found = []
    for block in split(card):
        if block.kind != "text" or block.quoted:
            continue
        text = block.text.text
        for match in MADE_FROM.finditer(text):
            name = re.compile(r"\s*" + NAME).match(text, match.end())
            cjk = match[0] in ("基于", "由", "从", "根据")
            if name and (not cjk or re.search("转换|量化|微调|制作|而来", text[name.end() :][:40])):
                found.append(name["name"])
        for pattern in (CJK_BEFORE, TURKISH):
            found += [m["name"] for m in pattern.finditer(text)]
    return list(dict.fromkeys(found))
