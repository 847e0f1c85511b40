"""Advice to keep thinking on or off, as opposed to naming the mode or telling how to switch."""

import re

from llm_specdec.cards.figures import Figure, figures
from llm_specdec.cards.judge import cues

WORDS = r"(?:thinking|reasoning)(?:\s+mode)?"
ADVICE = re.compile(
    rf"""\b(?:keep|leave|always\s+(?:keep|leave|turn|switch)|turn|switch)\s+{WORDS}\s+(?:turned\s+|switched\s+)?(?:on|off|enabled|disabled)
    |\b(?:keep|leave|turn|switch)\s+(?:on|off)\s+{WORDS}
    |{WORDS}\s+(?:should|must)\s+(?:always\s+)?(?:be\s+|stay\s+|remain\s+)(?:kept\s+|left\s+|turned\s+|switched\s+)?(?:on|off|enabled|disabled)
    |\b(?:recommend|suggest|advise)\w*\s+(?:to\s+)?(?:keep(?:ing)?|leav(?:e|ing)|turn(?:ing)?|switch(?:ing)?|enabl(?:e|ing)|disabl(?:e|ing))\s+(?:off\s+|on\s+)?{WORDS}(?:\s+(?:on|off|enabled|disabled))?
    |\b(?:use|run|works?\s+best)\s+(?:it\s+|the\s+model\s+|this\s+model\s+)?(?:only\s+)?with\s+{WORDS}\s+(?:turned\s+|switched\s+)?(?:on|off|enabled|disabled)
    |^\s*(?:please\s+|always\s+)?(?:disable|enable)\s+{WORDS}(?=\s*(?:$|[.;,:]|with\s+this|for\s+this))
    |(?:Denken|Denkmodus|Thinking)\s+(?:sollte\s+)?(?:bitte\s+)?(?:aus|an|ein)(?:geschaltet)?\s*(?:lassen|bleiben|schalten)
    |(?:请|建议|推荐|应)(?:始终)?(?:关闭|开启|打开|启用)思考(?:模式)?""",
    re.IGNORECASE | re.VERBOSE,
)
OFF = re.compile(r"\b(?:off|disabl\w*|aus)|关闭", re.IGNORECASE)
CONDITIONAL = re.compile(
    r"\b(?:to|if|for\s+(?!this\b)|when|unless|you\s+can|can\s+be|could|either|or|whether|wenn|um)\b(?=.*(?:thinking|reasoning))|\?\s*$",
    re.IGNORECASE,
)


def thinking_advice(sentence: str) -> Figure | None:
    """`thinking` on or off, where a sentence recommends it outright."""
    found = ADVICE.search(sentence)
    if not found or CONDITIONAL.search(sentence) or figures(sentence):
        return None
    if {cue.kind for cue in cues(sentence)} & {"withdrawn", "measured", "others", "against"}:
        return None
    value = "off" if OFF.search(found[0]) else "on"
    return Figure("thinking", found.start(), found.end(), value)
