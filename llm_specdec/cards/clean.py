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

STEPS = [
    (re.compile(r"<!--.*?-->", re.S), ""),
    (re.compile(r"~~.*?~~", re.S), ""),
    (re.compile(r"<(del|s|strike)>.*?</\1>", re.S | re.I), ""),
    (re.compile(r"<br\s*/?>", re.I), BREAK),
    (re.compile(r"(?:  +|\\)$", re.M), BREAK),
    (re.compile(r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>"), ""),
    (re.compile(r"!\[[^\]\n]*\]\([^)\n]*\)"), ""),
    (re.compile(r"\[\^[^\]\n]*\]"), ""),
    (re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)"), r"\1"),
    (re.compile(r"\[([^\]\n]*)\]\[[^\]\n]*\]"), r"\1"),
    (re.compile(r"https?://[^\s)>\"']+"), ""),
    (re.compile(r"\\(?:text|textrm|textit|textbf|texttt|mathrm|mathit|mathbf|operatorname)\b"), ""),
    (re.compile(r"\\(?:approx|sim)\b"), "~"),
    (re.compile(r"\\(?:leq?|leqslant)\b"), "≤"),
    (re.compile(r"\\(?:geq?|geqslant)\b"), "≥"),
    (re.compile(r"\\in\b"), " in "),
    (re.compile(r"\\(?:cdots?|ldots|dots)\b"), "…"),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"\\(?=[^\w\s])"), ""),
    (re.compile(r"[`${}]"), ""),
    (re.compile(r"(?<!\s)\*+|\*+(?!\s)"), ""),
    (re.compile(r"(?<!\w)_+(?=\w)|(?<=[\w.:!?)])_+(?!\w)"), ""),
]


def clean(text: str) -> str:
    """Text as a reader sees it: no marks, links by their words, full-width signs as ASCII."""
    for pattern, replacement in STEPS:
        text = pattern.sub(lambda m, r=replacement: _keep_lines(m, r), text)  # type: ignore[misc]
    return html.unescape(text).translate(WIDE)


def _keep_lines(match: re.Match[str], replacement: str) -> str:
    return match.expand(replacement) + "\n" * match[0].count("\n")
