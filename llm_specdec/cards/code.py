"""Settings in code: flags, keyword arguments, JSON, YAML, TOML, Modelfile lines."""

import re
from dataclasses import dataclass

from llm_specdec.cards.blocks import Block
from llm_specdec.cards.figures import parse, read
from llm_specdec.cards.found import Value
from llm_specdec.cards.words import kinds, words

VALUE = r"""(?P<value>[-+]?(?:\d[\d_]*\.?\d*|\.\d+)|true|false|on|off|null|none)"""
ENDS = r"""(?=["']?\s*(?:$|[,;)}\]\\'"#]|\s(?![*+/%-]\s*\d|if\b)))"""
ASSIGN = re.compile(
    rf"""(?<![\w-])(?P<prefix>(?:\w+\.)*)["']?(?P<name>[A-Za-z][\w-]*)["']?\]?\s*(?::=|[:=])(?!=)\s*["']?{VALUE}{ENDS}""",
    re.IGNORECASE | re.MULTILINE,
)
FLAG = re.compile(
    rf"""(?<![\w-])(?P<prefix>)--?(?P<name>[A-Za-z][\w-]*)["']?(?:,?\s+|=)["']?{VALUE}{ENDS}""",
    re.IGNORECASE | re.MULTILINE,
)
PARAMETER = re.compile(
    rf"""^\s*(?P<prefix>)(?:PARAMETER|(?:>>>\s*)?/set\s+parameter)\s+(?P<name>\w+)\s+["']?{VALUE}{ENDS}""",
    re.IGNORECASE | re.MULTILINE,
)
SYSTEM_LINE = re.compile(r'^\s*SYSTEM\s+(?:"""(.*?)"""|"([^"\n]*)"|([^\n]+))', re.M | re.S)
SYSTEM_KEY = re.compile(
    r"""["']?\bsystem(?:_prompt|_message)?["']?\s*[:=]\s*(?P<q>["'])(?P<text>(?:(?!(?P=q)).)+)(?P=q)""",
    re.IGNORECASE,
)
SPOILED_SCOPE = re.compile(
    r"draft|specul|train|rope|eval|bench|widget|teacher|student|embed|rerank|retriev|judge|old|deprecated|legacy|compare|baseline|test",
    re.IGNORECASE,
)
SWITCHED_OFF = re.compile(
    r"""["']?(?:enable|use)_(?P<name>\w+?)(?:_sampling)?["']?\s*[:=]\s*(?:false|0|off)""", re.I
)
OPENS = re.compile(r"""(?:["']?([\w. -]+?)["']?\s*([:=])\s*)?(?:([\w.]+)\s*)?[({]$""")
YAML_KEY = re.compile(r"""^(\s*)(?:-\s+)?["']?([\w][\w .-]*?)["']?:\s*$|^()\[([\w .-]+)\]\s*$""")
NAMED_ITEM = re.compile(r"""\s*-\s+["']?(?:name|preset|mode|profile)["']?:\s*["']?([\w .-]+)""")
NAMED_OBJECT = re.compile(r"""["'](?:name|preset|mode|profile)["']\s*:\s*["']([\w .-]+)["']""")
PROSE_LANGUAGES = ("", "text", "txt", "plain", "plaintext", "md", "markdown", "ini")


@dataclass(frozen=True)
class CodeFigure:
    """A setting in code. scopes: names around it, innermost first;
    variables, calls and comments start with `=`. rule: why there is no value, if so."""

    setting: str
    value: Value | None
    line: int
    scopes: tuple[str, ...]
    text: str
    rule: str = "code"


def read_code(block: Block) -> list[CodeFigure]:
    """All settings with a plain value in a code block; comments and strings do not count."""
    source = block.text.text
    numbers = block.text.numbers
    bare = mask(source)
    scopes = _Scopes(source, bare)
    off = {_setting(m["name"]) for m in SWITCHED_OFF.finditer(bare)} - {"thinking"}
    found: dict[int, CodeFigure] = {}
    for pattern in (PARAMETER, FLAG, ASSIGN):
        for match in pattern.finditer(bare):
            setting = _setting(match["name"])
            if setting is None and pattern is FLAG and "llama" in source:
                setting = "max_tokens" if match["name"] == "n" else None
            value = _value(setting, match["value"]) if setting else None
            around = scopes.at(match.start("name"))
            if setting is None or (value is None and setting in ("do_sample", "system")):
                continue
            rule = "code" if value is not None else "no value"
            if any(SPOILED_SCOPE.search(name) for name in (*around, match["prefix"])):
                rule = "code for something else"
            elif setting in off:
                rule = "switched off"
            row = source.count("\n", 0, match.start("name"))
            kept = value if rule == "code" else None
            text = source.split("\n")[row].strip()
            found[match.start("name")] = CodeFigure(setting, kept, numbers[row], around, text, rule)
    if not found and block.language in PROSE_LANGUAGES:
        return _prose(block)
    return _greedy([found[start] for start in sorted(found)])


def system_text(block: Block) -> str | None:
    """The system prompt that a Modelfile or a configuration in the block sets."""
    source = block.text.text
    line = SYSTEM_LINE.search(source)
    if line:
        return next(group for group in line.groups() if group is not None).strip()
    key = SYSTEM_KEY.search(source)
    return key["text"].strip() if key else None


def _setting(name: str) -> str | None:
    """The setting that a flag or a key names."""
    plain = name.lower().replace("-", "_")
    return next((s for s in kinds("code") if words(f"code.{s}").pattern.fullmatch(plain)), None)


def _value(setting: str, raw: str) -> Value | None:
    raw = raw.lower().replace("_", "")
    if setting == "thinking":
        return {"true": "on", "on": "on", "false": "off", "off": "off"}.get(raw)
    if setting == "do_sample":
        return 0 if raw == "false" else None
    if setting == "system":
        return None
    return parse(setting, raw)


def _greedy(found: list[CodeFigure]) -> list[CodeFigure]:
    """`do_sample=False` means temperature 0, unless a temperature stands beside it."""
    tempered = {f.scopes for f in found if f.setting == "temperature"}
    kept = []
    for f in found:
        if f.setting != "do_sample":
            kept.append(f)
        elif f.scopes not in tempered:
            kept.append(CodeFigure("temperature", 0, f.line, f.scopes, f.text))
    return kept


STRING_OR_COMMENT = re.compile(
    r"""\"\"\".*?\"\"\"|/\*.*?\*/|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?:(?<=\s)|^)(?:\#|//)[^\n]*""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def mask(source: str) -> str:
    """The code without comments and without text in strings; offsets stay."""

    def blank(match: re.Match[str]) -> str:
        text = match["string"]
        is_key = re.match(r"\s*:", source[match.end() :])
        if text and (is_key or " " not in text or re.search(r"""["']\s*:""", text[1:-1])):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return STRING_OR_COMMENT.sub(blank, source)


class _Scopes:
    """Names that enclose an offset: brackets with their key or call, YAML keys, comments."""

    def __init__(self, source: str, bare: str) -> None:
        self.spans: list[tuple[int, int, str]] = []
        self._brackets(bare)
        self._indents(bare)
        self.comments = [
            (m.start(), m[1].strip()) for m in re.finditer(r"^\s*(?:#|//)\s*(.+)$", source, re.M)
        ]
        self.blanks = [m.start() for m in re.finditer(r"\n\s*\n", source)]

    def _brackets(self, bare: str) -> None:
        stack: list[tuple[int, str]] = []
        for position, sign in enumerate(bare):
            if sign in "({[":
                opening = OPENS.search(bare[max(0, position - 80) : position + 1].split("\n")[-1])
                stack.append((position, _opener(opening) if opening else ""))
            elif sign in ")}]" and stack:
                start, name = stack.pop()
                inside = NAMED_OBJECT.search(bare, start, position)
                if name or inside:
                    self.spans.append((start, position, inside[1] if inside else name))

    def _indents(self, bare: str) -> None:
        opened: list[tuple[int, int, str]] = []
        offset = 0
        for line in [*bare.split("\n"), None]:
            indent = -1 if line is None else len(line) - len(line.lstrip())
            if line is None or line.strip():
                section = line is not None and line.startswith("[")
                while opened and (section or opened[-1][0] >= indent):
                    _, start, name = opened.pop()
                    self.spans.append((start, offset, name))
            key = YAML_KEY.match(line) if line else None
            item = NAMED_ITEM.match(line) if line else None
            if item:
                opened.append((indent, offset, item[1].strip()))
            elif key:
                opened.append((indent if key[2] else -1, offset, key[2] or key[4]))
            offset += len(line or "") + 1

    def at(self, offset: int) -> tuple[str, ...]:
        around = [span for span in self.spans if span[0] <= offset < span[1]]
        around.sort(key=lambda span: span[1] - span[0])
        names = [name for _, _, name in around]
        above = [(start, text) for start, text in self.comments if start <= offset]
        if above and not any(above[-1][0] < blank < offset for blank in self.blanks):
            names.append("=" + above[-1][1])
        return tuple(names)


def _opener(match: re.Match[str]) -> str:
    """The key before a bracket, or "=" and the variable or call that is no key."""
    key, sign, call = match.groups()
    if key and sign == ":":
        return key.strip()
    name = key or call
    return f"={name.strip()}" if name else ""


def _prose(block: Block) -> list[CodeFigure]:
    """A fenced list in plain words: "Temperature: 0.6", one a line, the name first."""
    return [
        CodeFigure(figure.setting, figure.value, number, (), line.strip())
        for number, line in block.raw_lines
        for figure in read(line).figures
        if figure.value is not None and not line[: figure.start].strip(" -*•|,;/")
    ]
