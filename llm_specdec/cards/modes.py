"""Which mode a figure belongs to: thinking or not, a task, a named preset."""

import re
from dataclasses import dataclass, replace

from llm_specdec.cards.lexicon import RECOMMENDS, Words

NON_THINKING = Words(
    r"""(?:/|\\)?no[\s_-]?think(?:ing)?(?: mode)?|non[\s_-]?think(?:ing)?(?: mode)?|non[\s_-]?reason(?:ing)?(?: mode)?|/no_think
    without (?:thinking|reasoning|a reasoning trace)(?: mode)?|(?:thinking|reasoning)(?: mode| trace)? (?:is )?(?:turned |switched )?(?:off|disabled)
    (?:thinking|reasoning)(?: mode)?\s*[=:]\s*(?:off|false|disabled|no|none)|enable_thinking["']?\s*[=:]\s*(?:False|0|off|no)
    (?:disabl(?:e|ed|ing)|turn(?:ed|ing)? off|switch(?:ed|ing)? off|no) (?:the )?(?:thinking|reasoning)(?: mode)?|instruct(?:ion)?[\s-]mode|(?:in|for|with) instruct(?! tun)|instruct:|direct(?:-answer)? mode
    ohne (?:Denken|Denkmodus|Nachdenken|Reasoning)|(?:Denk-?|Thinking-?|Reasoning-?)modus aus|Nicht-Denk-?modus|sans (?:réflexion|raisonnement)|mode sans réflexion|sin (?:pensamiento|razonamiento|pensar|razonar)|modo sin \w+|sem (?:raciocínio|pensamento|pensar)|senza (?:ragionamento|pensiero|ragionare)
    düşünme(?:den| kapal\w*| modu kapal\w*)|(?:Denken|Nachdenken|Reasoning) (?:ist )?aus(?:geschaltet)?|(?:réflexion|raisonnement) désactivée?|(?:pensamiento|razonamiento) (?:desactivado|apagado)|(?:raciocínio|pensamento) (?:desativado|desligado)|(?:ragionamento|pensiero) (?:disattivato|spento)|(?:размышлени|рассуждени)\w* (?:выключен|отключен|отключён)\w*|(?:выключенн|отключ[её]нн)\w+ (?:размышлени|рассуждени)\w*|denken uit(?:geschakeld)?|tanpa (?:berpikir|penalaran)|không suy (?:nghĩ|luận)|без (?:міркувань|мислення)|بدون تفكير|düşünmeyen mod\w*|düşünmesiz|без (?:размышлени|рассуждени)\w*|bez (?:myślenia|rozumowania)|zonder (?:denken|redeneren)|instruct-?modus|mode instruct|modo instruct|режим\w* instruct|instruct modu\w*""",
    r"非思考(?:模式|モード)? 无思考(?:模式)? 不思考(?:模式)? 关闭思考 思考なし 思考オフ 思考を?(?:無効|オフ) 비사고\s*모드? 사고\s*(?:없이|끄기)",
)
THINKING = Words(
    r"""(?:/|\\)think|think(?:ing)?[\s-]mode|reasoning[\s-]mode|with (?:thinking|reasoning)(?: mode)?(?: (?:is )?(?:turned |switched )?(?:on|enabled))?|(?:thinking|reasoning)(?: mode| trace)? (?:is )?(?:turned |switched )?(?:on|enabled)
    (?:thinking|reasoning)(?: mode)?\s*[=:]\s*(?:on|true|enabled|yes)|enable_thinking["']?\s*[=:]\s*(?:True|1|on|yes)|(?:in|for|when|while) (?:thinking|reasoning)(?! (?:tasks?|problems?|work|benchmarks?|models?|questions?))|(?:enable|turn on|switch on)(?:d|ed|ing)? (?:the )?(?:thinking|reasoning)|thinking:
    mode (?:berpikir|penalaran)|chế độ (?:suy nghĩ|suy luận|tư duy)|режим\w* (?:міркуван|мисленн)\w*|وضع التفكير
    mit (?:Denken|Denkmodus|Nachdenken)|Denk-?modus|Thinking-?Modus|avec (?:réflexion|raisonnement)|mode (?:de )?(?:réflexion|raisonnement|pensée)|mode thinking|con (?:pensamiento|razonamiento)|modo (?:de )?(?:pensamiento|razonamiento|pensar)|modo thinking|com (?:raciocínio|pensamento)|modo (?:de )?(?:raciocínio|pensamento)|con (?:ragionamento|pensiero)|modalità (?:di )?(?:ragionamento|pensiero)
    düşünme (?:modu\w*|açık\w*)|düşünen mod\w*|düşünerek|режим\w* (?:размышлени|рассуждени|мышлени)\w*|с (?:размышлени|рассуждени)\w*|tryb\w* (?:myślenia|rozumowania)|denkmodus|met denken""",
    r"思考(?:模式|モード) 开启思考 打开思考 深度思考(?:模式)? 思考あり 思考オン 사고\s*모드 생각\s*모드",
)
BARE_THINKING = Words(
    r"thinking|think|reasoning on|Denken|réflexion|pensamiento|raciocínio|ragionamento|düşünme|размышлени\w*|рассуждени\w*",
    "思考 사고",
)
BARE_INSTRUCT = Words(r"instruct|non-thinking|chat mode")
EVERY = Words(
    r"""general (?:chat|conversation|dialogues?|purpose|use|tasks?)|(?:both|all|either|any|every|whatever(?: the)?|each) (?:the )?(?:modes?|cases?|tasks?|uses?|kinds? of tasks?|use cases)|throughout|everywhere|in both cases|beide\w? Modi|in beiden Fällen|les deux modes|dans les deux cas|ambos modos|en ambos casos|ambos os modos|entrambe le modalità|in entrambi i casi|her iki mod\w*|обоих режим\w*|оба режима|во всех случаях|obu tryb\w+|beide modi""",
    r"两种模式 所有模式 任何模式 兩種模式 どちらのモード 両モード 全モード 두\s*모드 모든\s*모드",
)
GENERAL = Words(
    r"""general(?:ly|[\s-]purpose)?|defaults?|everything else|anything else|all else|everyday(?: tasks| use)?|most (?:work|tasks|uses|cases|things)|otherwise|all other \w+|other (?:tasks|uses|work)|normal(?: use)?|standard|regular|usual(?:ly)?|rest
    allgemein\w*|sonst|Standard|alles andere|Übriges|im Übrigen|général\w*|sinon|autrement|par défaut|le reste|tout le reste|generales?|por defecto|lo demás|el resto|todo lo demás|geral|gerais|padrão|o resto|tudo o mais|generale|predefinit\w|il resto|altrimenti
    genel\w*|varsayılan\w*|diğer\w*|общ(?:ий|ие|его|их|ая|ее)|по умолчанию|остальн\w+|обычн\w+|ogóln\w+|domyśln\w+|pozostał\w+|algemeen|overig\w*""",
    r"通用 一般 默认 其他 日常 常规 デフォルト その他 通常 일반 기본 그\s*외",
)
TASKS = {
    "coding": Words(
        r"""cod(?:e|ing)(?: generation| work| tasks?)?|programming|software(?: engineering| development)?|Programmier\w*|Code|Quell?code|programmation|codage|programación|código|codificación|programação|programmazione|codice|kodlama\w*|programlama\w*|kod|код\w*|программировани\w*|programowani\w*|kodowani\w*|programmeren""",
        r"代码 编程 编码 程式 コーディング プログラミング コード 코딩 코드 프로그래밍",
    ),
    "creative": Words(
        r"""creative(?: writing| work| tasks?)?|fiction|stor(?:y|ies)(?:telling|[\s-]writing)?|novels?|tales?|poems?|poetry|kreativ\w*|Geschichten|Erzählungen|créati\w+|(?:écriture créative|histoires|contes|récits)|creativ[ao]s?|cuentos|relatos|historias|escritura creativa|criativ[ao]s?|histórias|contos|escrita criativa|creativ[aei]|racconti|storie|yaratıcı\w*|öykü\w*|hikâye\w*|hikaye\w*|творч\w+|рассказ\w*|художествен\w+|kreatywn\w+|opowiada\w+|creatief|verhalen""",
        r"创意(?:写作)? 创作 写作 故事 小说 創作 物語 小説 창작 소설 이야기",
    ),
    "roleplay": Words(
        r"role[\s-]?play\w*|RP|Rollenspiel\w*|jeu de rôle|juego de rol|rol yapma|ролев\w+",
        r"角色扮演 ロールプレイ 롤플레이",
    ),
    "math": Words(
        r"math(?:s|ematics|ematical)?(?: problems?| tasks?)?|Mathematik\w*|Mathe|mathématiques|maths|matemáticas?|matematica|matematik\w*|математи\w+|matematyk\w*|wiskunde",
        r"数学 수학",
    ),
    "translation": Words(
        r"translat(?:ion|ions|ing)|Übersetz\w*|traductions?|traducci[oó]n\w*|tradução|traduções|traduzion[ei]|çeviri\w*|перевод\w*|tłumacze\w+|vertal\w+",
        r"翻译 翻訳 번역",
    ),
    "reasoning": Words(
        r"reasoning(?: tasks?| problems?)|logic(?:al)?(?: tasks?| puzzles?)?",
        r"推理(?:任务)? 推論(?:タスク)? 추론",
    ),
    "agentic": Words(
        r"agent(?:s|ic)?(?: use| work| tasks?| coding)?|agentique|agentisch\w*",
        r"智能体 エージェント 에이전트",
    ),
    "tools": Words(
        r"tool[\s-]?(?:use|calls?|calling)|function[\s-]calling|tools",
        r"工具调用 ツール(?:呼び出し|使用)",
    ),
    "summarization": Words(
        r"summar(?:y|ies|i[sz]ation|i[sz]ing)|Zusammenfass\w*|résumés?|resúmenes|resumos|riassunti|özet\w*|резюм\w*|суммаризац\w*",
        r"摘要 总结 要約 요약",
    ),
    "extraction": Words(r"(?:data |information )?extraction|structured output", r"抽取 提取 抽出"),
    "chat": Words(
        r"chat(?:ting|s)?|conversations?|dialogues?|small talk|Gespräche?|conversación|conversa|sohbet\w*|диалог\w*",
        r"聊天 对话 会話 대화",
    ),
    "factual": Words(r"factual(?: answers?| tasks?)?|facts"),
}
FOR = re.compile(
    r"(?:\b(?:for|in|on|when|during|with|bei|für|beim|zum|im|pour|en|para|per|in|için|для|при|в|do|dla|przy|voor|bij)|对于|针对|用于|在|对)\s*(?:(?:the|your|exact|precise|complex|hard|pure|longer?|most|any|die|das|den|der|la|le|les|l'|el|los|las|il|lo|gli|o|a|os|as|\w+(?:ing|ive|al))\s+){0,2}$",
    re.IGNORECASE,
)
AFTER_TASK = re.compile(
    r"^\s*(?:için\w*|kullanımı\w*|görevleri\w*|(?:任务|场景|时|用|等)|では|には|向け|用途|에는|작업)",
    re.IGNORECASE,
)
LISTED = re.compile(
    r"\s*(?:,|/|&|,?\s*(?:and|or|und|oder|et|ou|y|o|e|и|или|ve|veya|en|of)\s)\s*|[、和或と及]",
    re.IGNORECASE,
)
NOT_A_TASK = re.compile(
    r"^[\s-]*(?:models?|tune|block|blocks|fence|snippet|below|above|path|base|release|example)\b",
    re.IGNORECASE,
)
ENGINES = Words(
    r"""vLLM|SGLang|llama\.?cpp|llama-(?:cli|server)|ollama|LM ?Studio|MLX|mlx-lm|mlx_lm|transformers|TGI|koboldcpp|kobold\w*|SillyTavern|text-generation-webui|oobabooga|exllama\w*|tabbyAPI|aphrodite|python|cli|command line|terminal|API|server|client|curl|OpenAI|json|yaml|modelfile|GGUF|GPTQ|AWQ|jan|docker|shell|bash|TensorRT\S*|open ?webui"""
)
FILLER = re.compile(
    r"""\b(?:modes?|presets?|profiles?|styles?|settings?|sampl(?:ing|ers?)|parameters?|params|values?|for|the|our|my|your|we|i|you|recommended|recommend|suggested|suggest\w*|recommendations?|advice|advised?|use|with|and|in|of|to|configuration|config|options?|generation|decoding|inference|official|best|good|optimal|ideal|tasks?|work|uses?|kwargs|hyperparameters?|modus|modo|mode|modalità|modu|режим|einstellungen|empfohlen\w*|réglages|paramètres|ajustes|ayarlar\w*|önerilen)\b|模式|模式下|参数|推荐|设置|模式下|モード|推奨|設定|モード""",
    re.IGNORECASE,
)
PRESET_WORD = re.compile(r"\b(?:preset|profile|style)s?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Mention:
    """Words in a sentence that name a mode. kind: base, task or all (no mode in particular)."""

    start: int
    end: int
    kind: str
    name: str | None


@dataclass(frozen=True)
class Label:
    """What a heading, list label, table cell or key says of modes.

    modes: those it names (None = explicitly no mode); empty = it says nothing.
    preset: an unknown name, a preset only if its siblings show that it is one.
    """

    modes: tuple[str | None, ...] = ()
    preset: str | None = None


def mentions(text: str, label: bool = False) -> list[Mention]:
    """Mode words, in order. In running text a task counts only as in "for coding"."""
    found: list[Mention] = []

    def take(words: Words, kind: str, name: str | None, fits: bool = False) -> None:
        for start, end in words.spans(text):
            overlaps = any(start < m.end and m.start < end for m in found)
            listed = any(m.kind == "task" and LISTED.fullmatch(text[m.end : start]) for m in found)
            if not overlaps and (not fits or listed or _is_task_here(text, start, end, label)):
                found.append(Mention(start, end, kind, name))

    take(EVERY, "all", None)
    take(NON_THINKING, "base", "non-thinking")
    take(THINKING, "base", "thinking")
    for name, words in TASKS.items():
        take(words, "task", name, fits=True)
    for name, words in TASKS.items():
        take(words, "task", name, fits=True)  # again: "for coding and math"
    take(GENERAL, "all", None, fits=True)
    if label:
        take(BARE_INSTRUCT, "base", "non-thinking")
        take(BARE_THINKING, "base", "thinking")
    return sorted(found, key=lambda mention: mention.start)


def _is_task_here(text: str, start: int, end: int, label: bool) -> bool:
    if NOT_A_TASK.match(text[end:]):
        return False
    if label or AFTER_TASK.match(text[end:]):
        return True
    before = text[:start]
    if re.search(r"\bothe?rwise|\bsonst|\bsinon|иначе|остальн", text[start:end], re.IGNORECASE):
        return True
    return bool(FOR.search(before)) and not re.search(r"\bthis\s+$", before)


def with_brackets(text: str, named: list[Mention]) -> list[Mention]:
    """And what a bracket of its own says: "temperature 0.6 (thinking)"."""
    found = list(named)
    for bracket in re.finditer(r"\(([^()]{1,40})\)", text):
        start, end = bracket.span(1)
        if len(bracket[1].split()) > 4 or any(start < m.end and m.start < end for m in named):
            continue
        if label_of(bracket[1]).modes:
            inside = mentions(bracket[1], label=True)
            found += [replace(m, start=m.start + start, end=m.end + start) for m in inside]
    return sorted(found, key=lambda mention: mention.start)


def compose(group: list[Mention]) -> tuple[str, ...]:
    """Neighbouring mentions as modes: thinking + coding = thinking:coding; two tasks are two."""
    bases = list(dict.fromkeys(m.name for m in group if m.kind == "base"))
    tasks = list(dict.fromkeys(m.name for m in group if m.kind == "task"))
    pairs = [(base, task) for base in bases or [None] for task in tasks or [None]]
    named = (":".join(name for name in pair if name) for pair in pairs)
    return tuple(name for name in named if name)


def parts(mode: str | None) -> tuple[str | None, str]:
    """A mode as (thinking or not, task)."""
    first, _, rest = (mode or "").partition(":")
    return (first, rest) if first in ("thinking", "non-thinking") else (None, first)


def label_of(text: str) -> Label:
    """The mode that a label names."""
    text = re.sub(r"^[\s#>*\d.)(-]+", "", text).strip().rstrip(":").strip()
    inner = re.findall(r"\(([^()]*)\)", text)
    outer = re.sub(r"\([^()]*\)", " ", text)
    named = mentions(outer, label=True)
    if not any(m.kind == "base" for m in named):
        named += [m for part in inner for m in mentions(part, label=True) if m.kind == "base"]
    elif not named:
        named = [m for part in inner for m in mentions(part, label=True)]
    found = compose(named)
    preset = _preset(outer)
    is_preset = bool(PRESET_WORD.search(outer) and preset)
    if any(m.kind == "base" for m in named) or (found and not is_preset):
        return Label(found)
    if named and not found:
        return Label((None,))
    return Label((), preset)


def _preset(text: str) -> str | None:
    name = re.sub(r"[^\w\s+-]", " ", text, flags=re.UNICODE)
    if name in ENGINES or text in RECOMMENDS or len(name.split()) > 4:
        return None
    name = " ".join(FILLER.sub(" ", name).split()).lower()
    if not name or len(name.split()) > 3 or not re.search(r"[^\W\d_]", name):
        return None
    return name
