"""Markdown, HTML and LaTeX marks taken out of running text. Line breaks stay where they are."""

import html
import re

BREAK = "\u2028"  # a hard line break: ends a sentence

WIDE: dict[int, int | str] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
WIDE |= {ord("，"): ", ", ord("、"): ", ", ord("；"): "; ", ord("："): ": "}
WIDE |= {ord(blank): " " for blank in "\u00a0\u2009\u202f\u3000"}
WIDE |= {ord("−"): "-", ord("～"): "~", ord("〜"): "~", ord("“"): '"', ord("”"): '"'}
for zero in ("\u0660", "\u06f0", "\u0966"):  # Arabic, Persian and Devanagari digits
    WIDE |= {ord(zero) + digit: ord("0") + digit for digit in range(10)}
WIDE |= {ord("\u066b"): ".", ord("\u060c"): ", ", ord("\u061b"): "; "}
WIDE |= {ord("’"): "'", ord("‘"): "'"}

# Every repetition is bounded or cannot start again inside itself: time grows with length only.
STEPS = [
    (re.compile(r"<br\s{0,9}/?>", re.I), BREAK),
    (re.compile(r"(?:(?<! )  {1,9}|\\)$", re.M), BREAK),
    (re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,19}(?:\s[^<>]{0,500})?/?>"), ""),
    (re.compile(r"!\[[^\[\]\n]{0,500}\]\([^()\n]{0,2000}\)"), ""),
    (re.compile(r"\[\^[^\[\]\n]{0,99}\]"), ""),
    (re.compile(r"\[([^\[\]\n]{0,500})\](?:\([^()\n]{0,2000}\)|\[[^\[\]\n]{0,99}\])"), r"\1"),
    (re.compile(r"https?://[^\s)>\"']+"), ""),
    (re.compile(r"\\(?:text|textrm|textit|textbf|texttt|mathrm|mathit|mathbf|operatorname)\b"), ""),
    (re.compile(r"\\(?:approx|sim)\b"), "~"),
    (re.compile(r"\\(?:leq?|leqslant)\b"), "≤"),
    (re.compile(r"\\(?:geq?|geqslant)\b"), "≥"),
    (re.compile(r"\\pm\b"), "±"),
    (re.compile(r"\\in\b"), " in "),
    (re.compile(r"\\(?:cdots?|ldots|dots)\b"), "…"),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"\\(?=[^\w\s])"), ""),
    (re.compile(r"[`${}]"), ""),
    (re.compile(r"(?<![\s*])\*++|(?<!\*)\*++(?!\s)"), ""),
    (re.compile(r"(?<![\w])_+(?=\w)|(?<=[\w.:!?])(?<!_)_+(?!\w)"), ""),
]
HIDDEN = (
    ("<!--", "-->"),
    ("~~", "~~"),
    ("<del>", "</del>"),
    ("<s>", "</s>"),
    ("<strike>", "</strike>"),
)


def clean(text: str) -> str:
    """Text as a reader sees it: no marks, links by their words, full-width signs as ASCII."""
    for opening, closing in HIDDEN:
        text = without(text, opening, closing)
    for pattern, replacement in STEPS:
        text = pattern.sub(replacement, text)
    return html.unescape(text).translate(WIDE)


def without(text: str, opening: str, closing: str) -> str:
    """Text without what stands between two marks; an opening that is never closed stays."""
    lowered = text.lower() if len(text.lower()) == len(text) else text
    kept, start = [], 0
    while (opened := lowered.find(opening, start)) >= 0:
        closed = lowered.find(closing, opened + len(opening))
        if closed < 0:
            break
        end = closed + len(closing)
        kept += [text[start:opened], "\n" * text.count("\n", opened, end)]
        start = end
    return "".join([*kept, text[start:]])
