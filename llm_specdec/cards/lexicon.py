"""The words cards use, in the languages cards are written in. Data only.

Each pattern is a case-blind regular expression. Stems end in `\\w*` where a language
inflects. Boundaries are those of ASCII letters, since CJK text has no blanks.
"""

import re

L = r"(?<![A-Za-z0-9_])"  # no ASCII letter before
R = r"(?![A-Za-z0-9_])"  # none after


def words(text: str) -> re.Pattern[str]:
    """One pattern from alternatives, one or more a line."""
    parts = [part for line in text.strip().splitlines() for part in line.strip().split("|")]
    whole = "|".join(part.replace(" ", r"\s+") for part in parts if part)
    return re.compile(rf"(?<!\w)(?:{whole})(?!\w)", re.IGNORECASE)


def scripts(text: str) -> re.Pattern[str]:
    """The same for scripts without blanks between words."""
    return re.compile("|".join(text.split()))


class Words:
    """Alternatives with blanks between words, and alternatives in scripts without."""

    def __init__(self, spaced: str, unspaced: str = "") -> None:
        self.patterns = [words(spaced)] + ([scripts(unspaced)] if unspaced.split() else [])

    def spans(self, text: str) -> list[tuple[int, int]]:
        return sorted(m.span() for pattern in self.patterns for m in pattern.finditer(text))

    def __contains__(self, text: str) -> bool:
        return any(pattern.search(text) for pattern in self.patterns)


# ---------------------------------------------------------------- settings

_NAMES = {
    "temperature": rf"""{L}temperat(?:ure|uur|ur|ura|uras|ures|uren|urze|ury|urę|uru|urou)s?{R}
        {L}temp{R}\.?  {L}(?-i:T)(?=\s*[=≈:]\s*[\d.])  température  s[ıi]cakl[ıi][kğ]\w*
        температур\w*  温度 溫度 온도 {L}suhu{R} nhiệt\sđộ lämpötila\w* teplot\w+ θερμοκρασία
        درجة\s(?:ال)?حرارة तापमान""",
    "top_p": rf"""{L}top[\s_-]*p{R}(?![\s-]*(?:\d+\s*%))  {L}nucleus(?:[\s-]+sampling)?{R}
        核采样 ядерн\w+\s+(?:с[эе]мплировани|выборк)\w*""",
    "top_k": rf"{L}top[\s_-]*k{R}",
    "min_p": rf"{L}min(?:imum)?[\s_.-]*p{R}",
    "repetition_penalty": rf"""
        {L}(?:repetition|repeat|repeating|rep)[\s_.-]*pen(?:al(?:ty|ties)|ality)?{R}\.?
        pénalité\s+de\s+répétition  penali[sz]aci[óo]n\s+(?:por|de)\s+repetici[óo]n
        penali(?:dade|zação)\s+(?:de|por)\s+repetição  penalità\s+(?:di|per)\s+(?:la\s+)?ripetizion[ei]
        Wiederholungsstrafe\w* herhalingsstraf\w*  tekrar(?:lama)?\s+ceza\w+  штраф\w*\s+за\s+повтор\w*
        kar[aęy]\s+za\s+powtórzeni\w+  重复惩罚 重複懲罰 重复性惩罚 (?:繰り返し|反復)ペナルティ
        반복\s*(?:페널티|패널티)""",
    "presence_penalty": rf"""{L}pres(?:ence)?[\s_.-]*pen(?:alty)?{R}
        pénalité\s+de\s+présence  penali[sz]aci[óo]n\s+(?:por|de)\s+presencia
        penalidade\s+de\s+presença  penalità\s+di\s+presenza  штраф\w*\s+за\s+присутстви\w*
        Präsenzstrafe  存在惩罚 存在ペナルティ 존재\s*(?:페널티|패널티)""",
    "frequency_penalty": rf"""{L}freq(?:uency)?[\s_.-]*pen(?:alty)?{R}
        pénalité\s+de\s+fréquence  penali[sz]aci[óo]n\s+(?:por|de)\s+frecuencia
        penalidade\s+de\s+frequência  penalità\s+di\s+frequenza  штраф\w*\s+за\s+частот\w*
        Häufigkeitsstrafe  频率惩罚 頻度ペナルティ 빈도\s*(?:페널티|패널티)""",
    "max_tokens": rf"""{L}max(?:imum)?[\s_-]*(?:new|output|completion|generated|response)[\s_-]*tokens?{R}
        {L}max[\s_-]?tokens{R}  {L}(?:num|n)[\s_-]predict{R}
        {L}max(?:imum|imal)?\s+(?:output|response|generation|answer)\s+(?:length|size){R}
        {L}(?:output|response|generation|answer|completion)\s+length(?:\s+limit)?{R}
        {L}max(?:imum)?\s+number\s+of\s+(?:new|output|generated)\s+tokens{R}
        longueur\s+(?:maximale\s+)?de\s+sortie  longitud\s+(?:máxima\s+)?de\s+salida
        Ausgabelänge\w*  最大(?:输出|生成)(?:长度|词元数?|\s*tokens?\s*数?)? (?:输出|生成)长度
        最大出力(?:トークン数?|長)? 出力長 최대\s*출력\s*(?:길이|토큰)
        максимальн\w+\s+длин\w+\s+(?:ответа|вывода)""",
}
NAMES = {
    setting: re.compile("|".join(pattern.split()), re.IGNORECASE)
    for setting, pattern in _NAMES.items()
}

# A name that belongs to something else than sampling.
NAME_SPOILED_BEFORE = re.compile(
    r"""(?:distill?(?:ation)?|softmax|loss|kd|rout(?:er|ing)|gat(?:e|ing)|experts?|moe|teacher|student
    |draft(?:er|ing)?|speculative|retriev\w*|rerank\w*|rag|colou?r|room|ambient|operating|gpu|cpu|body
    |anneal\w*|gumbel|contrastive|calibration|attention|training|rollout|reward|label|embedding|search
    |index\w*|judge|critic|grader|sensor|water|oven|air|surface|core)[\s_-]*$""",
    re.IGNORECASE | re.VERBOSE,
)
NAME_SPOILED_AFTER = re.compile(
    r"""[\s_-]*(?:scal(?:ing|ed)|anneal\w*|schedul\w*|rout(?:ing|er)|gat(?:e|ing)|experts?
    |accura\w+|error|recall|hits?|candidates|passages|documents|chunks|results|retriev\w*|sensor
    |decay|distill\w*|softmax|checkpoints?|models?)(?![A-Za-z])""",
    re.IGNORECASE | re.VERBOSE,
)

# As they stand in code: flags and keys. Anything else is another setting.
CODE_NAMES = {
    "temperature": "temperature temp",
    "top_p": "top_p topp",
    "top_k": "top_k topk",
    "min_p": "min_p minp",
    "repetition_penalty": "repetition_penalty repeat_penalty rep_pen rep_penalty "
    "repetitionpenalty repeatpenalty reppen",
    "presence_penalty": "presence_penalty presencepenalty",
    "frequency_penalty": "frequency_penalty frequencypenalty freq_penalty",
    "max_tokens": "max_tokens max_new_tokens num_predict n_predict predict max_output_tokens "
    "max_completion_tokens maxtokens maxoutputtokens maxnewtokens",
    "thinking": "enable_thinking thinking enablethinking",
    "do_sample": "do_sample dosample",
    "system": "system system_prompt systemprompt",
}
SETTING_OF = {name: setting for setting, names in CODE_NAMES.items() for name in names.split()}
FLAG_ONLY = {"n": "max_tokens"}

# Values that make sense; a figure outside is something else.
LIMITS = {
    "temperature": (0, 5),
    "top_p": (0, 1),
    "top_k": (-1, 1000),
    "min_p": (0, 1),
    "repetition_penalty": (0, 2.5),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "max_tokens": (1, 10_000_000),
}

SYSTEM = Words(
    r"""system[\s_-]*(?:prompts?|messages?|instructions?|turns?|role)|system[\s-]?prompt\w*
    Systemnachricht\w*|Systemanweisung\w*|systeemprompt\w*
    (?:invites?|prompts?|messages?|instructions?) (?:de |du )?systèmes?
    (?:prompts?|mensajes?|instrucci[óo]n(?:es)?) (?:de |del )?sistema
    (?:prompts?|mensage[mn]s?|instruç(?:ão|ões)) (?:de |do )?sistema
    (?:prompts?|messagg[io]) (?:di |del )?sistema|sistem (?:istem|mesaj|komut|prompt|yönerge)\w*
    системн\w+ (?:промпт|сообщени|подсказк|инструкци|запрос)\w*|(?:prompt\w*|komunikat\w*) systemow\w+""",
    r"系统提示词? 系統提示詞? 系统消息 系统指令 システム(?:プロンプト|メッセージ|指示) 시스템\s*(?:프롬프트|메시지)",
)
GREEDY = Words(
    r"""greedy(?: (?:decoding|search|sampling|mode))?|greedily
    décodage glouton|gloutonne?|decodificación (?:voraz|codiciosa|greedy)|voraz
    decodificação (?:gulosa|gananciosa|greedy)|decodifica greedy|gierige\w* Dekodier\w*|Greedy-\w+
    жадн\w+ (?:декодировани|поиск|генераци|с[эе]мплировани|режим|выборк)\w*|жадно
    açgözlü(?: (?:kod çözme|arama|örnekleme))?|dekodowani\w+ zachłann\w+""",
    r"贪[婪心](?:解码|搜索|采样|策略)? 貪欲(?:法|探索|デコード)? グリーディ(?:ー)?(?:デコーディング|デコード|探索|法|サーチ)? 그리디(?:\s*디코딩)? 탐욕",
)

# ---------------------------------------------------------------- advice

RECOMMENDS = Words(
    r"""recommend\w*|suggest(?:s|ed|ion|ions)?|advis(?:e|es|ed|able|ing)|advice|should(?! (?:score|see|expect|get|reach|give|yield|reproduce|match|produce|result|take|fit|work|look|find))|ought to|important|make sure|be sure|ensure
    best(?! (?:of|score|scores|model|checkpoint|in class|open|result on|single|token))|optimal(?:ly)?|optimum|ideal(?:ly)?
    sweet spot|prefer(?:s|red|ably)?|essential|mandatory|obligatory|compulsory|indispensable|required|must|needs?|necessary
    we ask you|please|tips?|tuned for|good (?:starting points?|defaults?|values?|settings)|sane defaults?
    (?:settings?|parameters|values?|samplers?|flags|options) to use|has to|have to
    (?:my|our) (?:\w+ )?(?:settings?|presets?|samplers?|parameters|configuration|config|setup|pick|choice)
    I (?:use|run|like|set|keep)|intended settings?|go with|stick (?:to|with)|rule of thumb|always use|always set
    empf(?:iehl|ohl|ehl)\w*|rate(?: ich| wir)?|ratsam|vorschl[aä]g\w*|schlagen|sollten?|am besten|bitte|bewährt\w*|beste\w?
    unerlässlich|zwingend|erforderlich|notwendig|Pflicht|unverzichtbar|muss|müssen
    recommand\w*|conseill\w*|conseils?|suggér\w*|préconis\w*|devrai\w+|il faut|doit|doivent|idéal\w*|optimal\w*|meilleur\w*|obligatoire\w*|de préférence
    recom(?:end|iend)\w*|sug(?:er|ier)\w+|aconsej\w*|consejos?|conviene|debe(?:n|ría|rían|rá)?|mejor(?:es)?|óptim\w+|obligatori\w+|imprescindible\w*
    sugest\w+|aconselh\w*|deve(?:m|ria|riam)?|melhor(?:es)?|ótim\w+|ideai?s|obrigatóri\w+
    consigli\w*|raccomand\w*|sugger\w*|dovrebbe\w*|deve|devono|miglior\w*|ottimal\w+|obbligatori\w+
    aanbe(?:vel|vol)\w*|raden|aanraden|advi(?:es|seren)|verplicht|het best\w*|moet
    öner\w*|tavsiye\w*|en iyi|zorunlu\w*|şart(?:tır)?
    рекоменд\w*|советуе\w+|совету\w+|предлага\w+|лучш\w+|оптимальн\w+|следует|стоит|должн\w+|обязател\w+|необходим\w*|συνιστ\w+|προτείν\w+
    zalec\w*|polec\w*|sugeruj\w*|najlep\w+|należy|powin\w+|obowiązkow\w+
    doporuč\w*|rekommend\w*|anbefal\w*|föreslå\w*|bör|suosit\w*|suositel\w*|рекоменду\w*|радимо
    disarankan|menyarankan|sarankan|rekomendasi|wajib|khuyến nghị|khuyên dùng|đề xuất|nên
    نوصي|ينصح|يوصى|अनुशंसित|सुझाव""",
    r"推荐 推薦 建议 建議 最佳 应该? 應 必须 必需 务必 請 请 推奨 お?[勧薦す]す?め オススメ 最適 べき ください 必須 必ず 권장 추천 권고 제안 최적 필수 반드시 하세요 설정하십시오",
)
IMPERATIVE = Words(
    r"""use|set|keep|sample|run|generate|decode|leave|choose|pick|stick|start|stay|try|put|apply|configure|lower|raise|cap|limit
    verwende\w?|verwenden Sie|nutze\w?|nutzen Sie|benutze\w?|benutzen Sie|setze\w?|setzen Sie|stelle\w?|stellen Sie|wähle\w?|wählen Sie|lass\w?|lassen Sie
    utilise[zr]|réglez|régler|mettez|gardez|choisissez|fixez|laissez|employez|prenez
    us[ae]|utili[cz][ea](?:mos)?|ponga|pon|fij[ea]|ajust[ea]|mant[eé]n\w*|configur[ea]|mantenga|establezca|defina|mantenha|coloque|deixe
    usa(?:re|te)|utilizza(?:re|te)|imposta(?:re|te)?|teneteT?|mantenete|impostate
    gebruik|stel|zet|kullanın(?:ız)?|ayarlayın(?:ız)?|seçin(?:iz)?|tutun(?:uz)?|bırakın(?:ız)?
    используйте|ставьте|установите|задайте|выставьте|выставляйте|держите|оставьте|поставьте|берите
    używaj|ustaw|użyj|gunakan|atur|dùng|đặt""",
    r"使用 设置为 设为 設為 設定 采用 用いて 使って 설정 사용",
)
NOT_IMPERATIVE = re.compile(
    r"(?:n't|\b(?:we|they|it|who|which|that|to|not|can|could|may|might|would|benchmarks?|users?|people|"
    r"scripts?|demo|demos|the|a|of|our|their|its|in|this|training|runs?|test)|不|未|被|我们|所)\s*$",
    re.IGNORECASE,
)
REQUIRES = Words(
    r"""essential|mandatory|obligatory|compulsory|indispensable|required|requires|must|necessary|vital|imperative|non-negotiable|needs|has to|have to
    zwingend|Pflicht|unerlässlich|erforderlich|notwendig|unverzichtbar|obligatorisch|muss|müssen
    obligatoire\w*|indispensable\w*|nécessaire\w*|essentiel\w*|impérati\w+|doit|doivent|requis\w*|il faut
    obligatori\w+|imprescindible\w*|esencial\w*|necesari\w+|debe|deben
    obrigatóri\w+|essencia(?:l|is)|indispensáve\w+|necessári\w+|imprescindíve\w+|deve|devem
    obbligatori\w+|essenzial\w+|indispensabil\w+|necessari\w+|imprescindibil\w+|devono
    verplicht|noodzakelijk|vereist|essentieel|moet|zorunlu\w*|şart(?:tır)?|gerekli\w*|mecburi\w*
    обязател\w+|необходим\w*|должн\w+|требует\w*|нужн[аоы]|нужен|obowiązkow\w+|konieczn\w+|wymagan\w+|niezbędn\w+|musi
    nödvändig\w*|måste|povinn\w+|nutn\w+|wajib|harus|bắt buộc|обов'язков\w*|pakollinen|إلزامي|ضروري|अनिवार्य""",
    r"必须 必須 必需 必要 必填 务必 不可或缺 不可缺少 不可欠 必ず 필수 반드시",
)
NOT_REQUIRED = Words(
    r"""(?:not|isn't|aren't|never|hardly|nor) (?:\w+ )?(?:essential|mandatory|required|necessary|obligatory|needed|vital|a must)
    no \w+ (?:is |are )?(?:required|needed|necessary)|optional|nicht (?:\w+ )?(?:zwingend|erforderlich|notwendig|nötig)|nicht Pflicht|keine Pflicht
    (?:pas|non|n'est pas) (?:obligatoire|indispensable|nécessaire|essentiel)\w*|facultati\w+|no es (?:obligatori|necesari|esencial|imprescindible)\w*|opcional\w*
    não é (?:obrigatóri|necessári|essencial)\w*|non è (?:obbligatori|necessari|essenzial)\w*|opzional\w*
    zorunlu değil\w*|şart değil\w*|gerekli değil\w*|isteğe bağlı|не обязател\w+|необязател\w+|не требуется|не нужн\w+|не необходим\w+|nie (?:jest )?(?:wymagan|konieczn|obowiązkow)\w+|niet (?:verplicht|nodig)""",
    r"不必 非必须 不是必[须需] 无需 不需要 必須では 不要です 필수는 아니",
)

# ---------------------------------------------------------------- what does not count

MEASURED = Words(
    r"""benchmark\w*|evaluat\w*|evals?|pass@\d+|scores?|scored|scoring|accuracy|leaderboard\w*|harness|reproduc\w*|measur(?:ed|ement|ements|ing)
    single run|runs? with|was run|were run|(?:was|were) (?:obtained|drawn|sampled|generated|produced|computed|decoded)|drawn (?:at|with)|averaged|mean of|means of
    baselines?|compar(?:ed|ison|isons|e)|results? (?:were|was|are|come|comes|obtained|above|below|on|table)|tests?|test (?:set|suite|run|runs|results|protocol)|protocol
    ran (?:at|with)|we (?:used|ran|sampled|set)|MMLU\S*|AIME\S*|GPQA\S*|HumanEval\S*|GSM8K|MATH-500|LiveCodeBench|SWE-\w+|IFEval|arena|reported
    Auswertung\w*|ausgewertet|gemessen|Messung\w*|Ergebnis\w*|bewertet|Bewertung\w*|Testl[aä]uf\w*|Vergleich\w*|verglichen
    évalu\w*|mesur\w*|résultats?|comparaison|comparé\w*|obtenus?|evalu\w*|medid\w*|medim\w*|resultados?|puntuaci\w*|comparaci\w*|obtenid\w*|pruebas?|benchmarks?
    avali\w*|comparaç\w*|obtid\w*|testes?|valut\w*|misurat\w*|risultat\w*|punteggi\w*|ottenut\w*|confront\w*
    değerlendir\w*|ölçüm\w*|ölçül\w*|sonuçlar\w*|testler\w*|karşılaştır\w*|оцен[кои]\w*|оценива\w*|бенчмарк\w*|измер\w*|замер\w*|тест(?:ах|ы|ов|ирова\w+)?|результат\w*|сравн\w*|получен\w*
    ocen\w*|zmierzon\w*|wynik\w*|testow\w*|resultaten|gemeten|evaluatie""",
    r"评测 评估 基准 测试 跑分 得分 成绩 評価 ベンチマーク 測定 スコア 計測 テスト 평가 벤치마크 측정 점수",
)
TRAINED = Words(
    r"""train(?:ed|ing|s)?|fine-?tun(?:ed|ing|e)|pre-?train\w*|rollouts?|distill?\w*|rewards?|losses|loss|softmax|learning rate|epochs?|RL|RLHF|reinforcement
    GRPO|DPO|PPO|SFT|annotat\w*|synthe(?:tic|sis|si[sz]ed)|data generation|(?:the|our|training) data|teacher|student|LoRA|batch size|hyper-?parameters? (?:of|for) training
    trainier\w*|Feinabstimmung\w*|Lernrate|Belohnung\w*|entraîn\w*|apprentissage|entren\w*|aprendizaje|trein\w*|aprendizagem|addestr\w*|apprendimento
    eğit\w*|öğrenme|обуч\w*|дообуч\w*|дистилл\w*|trening\w*|treningow\w*|trenowan\w*""",
    r"训练 微调 蒸馏 学习率 奖励 学習 蒸留 ファインチューニング 훈련 학습 증류",
)
WITHDRAWN = Words(
    r"""(?:we|I|they|authors?) (?:had |once |first |originally )?(?:recommended|suggested|advised)|used to|previous(?:ly)?|earlier|formerly|no longer|until|by mistake|mistaken(?:ly)?|erroneous(?:ly)?|in error|typo|withdr(?:aw|awn|ew)|retract\w*|obsolete|outdated|deprecated|superseded|replaced
    old(?:er)? (?:values?|settings?|recommendations?|advice|cards?|versions?|defaults?|recipes?|figures?|numbers?|presets?)|stood here|(?:was|were) (?:recommended|advised|suggested|listed|given|wrong)|had (?:recommended|suggested|advised)|(?:recommended|suggested|advised) (?:before|until|in the past|at first)|at first|originally|wrong(?:ly)?|changed from|in the past|once (?:recommended|suggested|advised)|no more|history|changelog|ignore (?:the|that|any)
    früher\w*|nicht mehr|vorher\w*|bisher\w*|irrtümlich\w*|veraltet\w*|zurückgezogen|ehemal\w*|falsch\w*
    auparavant|précédemment|ancien\w*|n'est plus|ne sont plus|par erreur|obsolète\w*|retiré\w*|jadis
    antes|anterior\w*|ya no|por error|obsolet\w*|retirad\w*|antigu\w*|já não|não é mais|não são mais|por engano|em versões anteriores
    in precedenza|precedent\w*|non è più|non sono più|per errore|ritirat\w*
    eskiden|önceki|artık|yanlışlıkla|geri çekil\w*|daha önce\w*|eski
    раньше|ранее|прежн\w+|больше не|устар\w+|ошибочн\w+|по ошибке|отозван\w*|снят\w*|wcześniej\w*|dawniej|już nie|przez pomyłkę|vroeger|niet meer|per abuis""",
    r"之前 以前 曾经? 原先 旧版? 撤回 不再 错误 有误 作废 笔误 かつて 旧版 撤回 誤 もう 이전 예전 더\s*이상 철회 잘못",
)
FAILS = Words(
    r"""gibberish|rambl\w*|loops?|looping|repeats? itself|incoheren\w*|breaks?|broken|garbage|nonsense|hallucinat\w*|fails?|failed|falls? apart|degrad\w*|collapse[sd]?|derail\w*
    too (?:high|low|hot|cold|much)|worse|worst|bad(?:ly)?|poor(?:ly)?|unusable|unstable|mixes|problems?|harm(?:s|ful)?|hurts?|avoid|never|beware|caution|warning|crash\w*|endless\w*
    Unsinn|wirr\w*|Schleifen?|bricht|schlecht\w*|vermeide\w*|zu hoch|zu niedrig|faselt|charabia|boucl\w*|incohéren\w*|dégrad\w*|éviter|évitez|n'importe quoi
    bucles?|degrad\w*|evit\w*|galimatías|tonterías|demasiad\w*|incoer\w*|em loop|disparates?|evita\w*|sproloqui\w*|troppo
    бред\w*|зациклив\w*|бессвязн\w*|ломает\w*|избега\w*|слишком|плохо|чепух\w*|saçma\w*|takıl\w*|bozul\w*|kaçın\w*|tutarsız\w*|bełkot\w*|onzin""",
    r"乱码 胡言 胡说 崩溃 避免 过高 过低 太高 太低 变差 循环 破綻 崩れ 崩壊 ループ 避け 高すぎ 低すぎ おかしく 支離滅裂 횡설수설 깨지 피하",
)
PREVENTS = re.compile(
    r"\b(?:avoid(?:s|ing)?|prevent(?:s|ing)?|stops?|against|keeps? \w+ from|to reduce|reduces?|otherwise|without it|sonst|sinon|иначе|"
    r"de lo contrario|caso contrário|altrimenti|aksi halde)\b[^,;.]*|否则[^。]*|以避免[^。]*|防止[^。]*",
    re.IGNORECASE,
)
TRIED = Words(
    r"""tried|swept|sweeps?|sweeping|explor(?:ed|ing|ation)|experiment\w*|ablat\w*|grid|varied|varying|tested|testing|search(?:ed)? over|probed|candidates?
    probiert\w*|ausprobiert\w*|getestet\w*|durchprobiert\w*|essay\w*|testé\w*|balay\w*|prob(?:amos|ado|ada|ados|adas|é)|testamos|testad\w*|barrido|varredura|provat\w*|testat\w*|abbiamo provato
    пробовал\w*|перебира\w*|перебор\w*|проверя\w+|denedik|denendi|denenen|denediğimiz|test ettik|sprawdz\w*|testowal\w*|geprobeerd|getest""",
    r"尝试 试过 试了 扫描 对比 网格 实验 試し 試行 検証 比較 実験 시도 실험 시험",
)
SHOWN = Words(
    r"""quick ?starts?|smoke(?: tests?)?|demos?|demonstration|for example|sanity checks?|hello world|toy|minimal example|getting started|try it out|says nothing about|does my build|quick (?:test|check|look)|to check|examples?
    Schnellstart|Beispiele?|zum Beispiel|Kurztest|démarrage rapide|exemples?|par exemple|inicio rápido|ejemplos?|por ejemplo|início rápido|exemplos?|por exemplo|avvio rapido|esempi\w?|per esempio
    hızlı başlangıç|örnek\w*|быстрый старт|пример\w*|например|szybki start|przykład\w*|snelstart|voorbeeld\w*""",
    r"快速(?:开始|入门|上手) 示例 例子 例如 演示 クイックスタート サンプル 使用例 例えば デモ 빠른\s*시작 예시 예제 데모",
)
QUOTED = Words(
    r"""(?:sample|example) (?:outputs?|generations?|conversations?|dialogues?|responses?|chats?|completions?|transcripts?|answers?)|samples?|generations? samples?|outputs?|transcripts?|model (?:output|response|answer)s?|responses?|completions?
    (?:user|assistant|prompt|human|bot|answer|reply)s?
    Beispielausgaben?|Ausgaben?|Antworten?|exemples? de (?:sortie|génération)s?|sorties?|réponses?|ejemplos? de salida|salidas?|respuestas?|exemplos? de saída|saídas?|respostas?|esempi\w? di output|risposte?
    örnek çıktı\w*|çıktı\w*|yanıt\w*|пример\w* (?:вывода|ответа|генерации)|вывод|ответ\w*|przykładow\w+ odpowied\w+|odpowied\w+""",
    r"输出 示例输出 输出示例 回答 生成示例 样例 出力例? 回答例 応答例? 生成例 출력(?:\s*예시)? 응답",
)
PASTED = Words(
    r"""(?:original|upstream|parent(?:'s)?|base|source|base model(?:'s)?) (?:model )?(?:card|readme)(?:'s)?(?: below| follows)?
    (?:model )?(?:card|readme) (?:of|from) (?:the )?(?:original|base|parent|upstream|source)\b.*|original description|(?:card|readme|text|section|following|below|this) (?:is |was |are |were )?(?:quoted|copied|pasted|taken|reproduced|verbatim)\b.*
    (?:quoted|copied|pasted|reproduced|cited) (?:verbatim |unchanged )?from\b.*|from the (?:original|upstream|parent|base)(?: model)?(?:'s)? (?:card|readme)|what the (?:original|upstream|base) (?:authors|card) says?
    (?:the )?(?:card|readme) (?:of|for) (?:the )?(?:base|parent|original|teacher|other) model|from (?:the )?(?:card|readme) of\b.*
    Original-?(?:Modellkarte|Karte|README)|ursprüngliche Modellkarte|Modellkarte des (?:Originals|Basismodells)|(?:carte|fiche) (?:du modèle )?(?:original|d'origine)\w*|(?:carte|fiche) du modèle (?:original|de base|d'origine)
    (?:tarjeta|ficha) (?:del modelo )?(?:original|base)|(?:cartão|ficha) (?:do modelo )?(?:original|base)|(?:scheda|card) (?:del modello )?(?:originale|base)
    (?:исходн|оригинальн)\w+ карточк\w+|карточк\w+ (?:исходной|оригинальной|базовой) модели|orijinal model kartı|oryginaln\w+ kart\w+|originele modelkaart""",
    r"原始?模型(?:卡|说明|介绍) 原模型卡片 以下(?:内容)?(?:为|是|摘自|引自)原 摘自原 元(?:の)?モデルカード 元モデルの(?:カード|README) 원본\s*모델\s*카드",
)
PASTE_ENDS = Words(
    r"""(?:about |notes? (?:on|for) )?(?:this|my|our) (?:own )?(?:quants?|build|builds|repo|repository|upload|conversion|tune|merge|edition|version|notes?|settings|recommendations?|advice)
    end of (?:the )?(?:original|quoted|upstream|quote|card|paste)\b.*"""
)
OTHERS = Words(
    r"""(?:original|upstream|parent|base)(?: model)?(?:'s)? (?:authors?|card|model|team|creators?|recipe|advice|recommend\w*|settings)|(?:its|the) (?:parent|base|original|predecessor|sibling)(?:'s)?|predecessor\w*|their (?:card|model|settings|recipe)|other models?|another model|most models|the authors of|\w+'s (?:card|authors?|readme|team)|the (?:judge|grader|critic|reward model|router|retriever|re-?ranker|embedder|embedding model|drafter|draft model|speculator|teacher|classifier|guard model|verifier)
    accepts?|valid (?:values?|range)|allowed values?|possible values?|ranges from|is an? (?:number|float|integer|value)|defined (?:on|for|as)
    defaults? (?:is|are|of|to|value|values|in)|(?:llama\.cpp|ollama|vllm|sglang|server|engine|runtime|library|transformers|LM Studio)(?:'s|s')? (?:\w+ )?defaults?|Voreinstellung\w*|Standardwert\w*|par défaut|por defecto|por padrão|predefinit\w+|по умолчанию|varsayılan\w*|domyśln\w+
    das Original\w*|das Basismodell|des Basismodells|le modèle (?:original|de base|d'origine)|el modelo (?:original|base)|o modelo (?:original|base)|il modello (?:originale|base)|исходн\w+ модел\w+|базов\w+ модел\w+|temel model\w*|orijinal model\w*""",
    r"原模型 原始模型 原版 基座模型 基础模型 默认值 元モデル ベースモデル 既定値 デフォルト値 원본\s*모델 기본값",
)

# ---------------------------------------------------------------- what a heading or intro is about

ABOUT_SETTINGS = Words(
    r"""settings?|parameters?|params|values?|sampl\w+|decoding|generation|inference|flags?|options?|arguments?|config\w*|presets?|recipe|setup|launch|hyper-?parameters?
    Einstellung\w*|Parameter\w*|Werte?|paramètres?|réglages?|valeurs?|parámetros?|ajustes?|valores?|parâmetros?|configuraç\w+|parametri|impostazioni|valori|instellingen|waarden
    ayarlar\w*|ayar|parametre\w*|değer\w*|настройк\w*|параметр\w*|значени\w*|ustawieni\w*|parametry|wartości""",
    r"参数 設定 设置 配置 数值 取值 采样 パラメータ? パラメーター 値 설정 파라미터 매개변수 값",
)
POINTS_ON = Words(
    r"""following|below|these|this|next|folgende\w*|suivante?s?|siguientes?|seguintes?|seguenti|aşağıdaki\w*|следующ\w+|poniższ\w+|volgende""",
    r"以下 下記 如下 下面 次の 다음",
)
ABOUT_OTHER = Words(
    r"""hardware|load(?:ing)?|download\w*|GPUs?|VRAM|memory|RAM|quants?|quanti[sz]ations?|GGUFs?|files?|install\w*|version|versions|prompt (?:format|template)|templates?|formats?|citation|cite|licen[cs]es?|context(?: length| size| window)?|safety|drivers?|engines?|server|serving|frontends?|reading|languages?|datasets?|tools?|libraries|library|frameworks?|vLLM|SGLang|llama\.cpp|ollama|transformers|use[sd]? cases?|limitations?|requirements?
    Grafikkarte\w*|Speicher|Quantisierung\w*|matériel|mémoire|quantification|memoria|cuantizaci\w+|memória|quantizaç\w+|donanım|bellek|оборудован\w*|памят\w*|квант\w*|sprzęt|pamięć""",
    r"硬件 显存 内存 量化 提示词?格式 模板 许可 ハードウェア メモリ 量子化 テンプレート ライセンス 하드웨어 메모리 양자화 템플릿",
)

# ---------------------------------------------------------------- negation

NEGATES_BEFORE = re.compile(
    r"""(?:\b(?:no|never|avoid|omit|skip|drop|disable|forgo|ditch|without|leave\s+out|turn\s+off|switch\s+off|stay\s+away\s+from|not\s+(?:to\s+)?(?:us(?:e|ing)|set(?:ting)?|send(?:ing)?|add(?:ing)?|pass(?:ing)?)|refrain\s+from(?:\s+using)?|(?:advise|recommend)\s+against(?:\s+using)?|discourage|(?:do\s+not|don't|not)\s+(?:recommend|advise|suggest)(?:\s+using)?
    |(?:do\s+not|don't|don’t|must\s+not|should\s+not|shouldn't|mustn't|never|cannot|can't|may\s+not)\s+(?:ever\s+)?(?:use|set|add|send|pass|apply|enable|include|supply|put|give|write|provide|turn\s+on|switch\s+on|activate|specify|run(?:\s+it)?(?:\s+with)?|decode|sample|go|try|employ|insert)
    |kein(?:e|en|em|er)?|niemals|nie|vermeide[nt]?(?:\s+Sie)?|verzichte[nt]?\s+(?:Sie\s+)?auf|ohne
    |pas\s+de|aucune?|jamais(?:\s+de)?|évite[zr]|n'utilise[zr]\s+(?:pas|jamais)|ne\s+pas\s+utiliser|ne\s+(?:faut|doit|devez|doivent)\s+pas\s+(?:utiliser|employer|mettre|ajouter|activer)|déconseill\w+(?:\s+d'utiliser)?|n'ajoutez\s+pas|sans|ne\s+mettez\s+pas
    |no\s+se\s+(?:recomienda|aconseja)(?:\s+(?:usar|utilizar|el\s+uso\s+de))?|desaconsej\w+|no\s+(?:use[ns]?|utilice[n]?|utilices|añad[ae]n?|pong[a]n?|emplee[n]?|agregue[n]?|incluya[n]?)|nunca(?:\s+use[n]?)?|evite[n]?|evita[r]?|sin|ning[úu]n
    |não\s+(?:se\s+)?recomenda\w*(?:\s+(?:usar|o\s+uso\s+de))?|não\s+(?:use|utilize|adicione|inclua|coloque|envie)|nunca(?:\s+use)?|evite|sem|nenhum
    |(?:si\s+)?sconsigli\w+(?:\s+l'uso\s+di)?|non\s+si\s+consiglia|non\s+(?:usare|usate|utilizzare|utilizzate|aggiungere|aggiungete|impostare|inserire)|mai|evita(?:re|te)?|senza|niente|nessun
    |не\s+(?:рекоменду\w+|совету\w+)(?:\s+использовать)?|не\s+(?:используйте|применяйте|добавляйте|ставьте|задавайте|включайте|указывайте|пишите|передавайте)|избегайте|никак\w+|никогда\s+не\s+используйте|отключите|без|не\s+следует\s+использовать|нельзя\s+использовать
    |geen|gebruik\s+geen|vermijd|nooit|zonder|nie\s+używaj(?:cie)?|unikaj(?:cie)?|bez|żadn\w+|jangan\s+(?:gunakan|pakai)|hindari|đừng\s+dùng|không\s+dùng|không\s+nên\s+dùng)\s+
    |(?:请?不要(?:使用|添加|加入|设置|启用|采用|开启|写)?|请?勿(?:使用|添加|设置)?|切勿(?:使用|添加)?|避免(?:使用)?|不(?:建议|推荐|应|宜|可|能|得)(?:使用|采用|设置|添加)|禁用|禁止(?:使用)?|关闭|不使用|别用)\s*)
    (?:(?:a|an|any|the|your|own|even|use|using|usar|utilizar|utiliser|zu|verwenden|adding|setting|sending|passing|writing|including|supplying|enabling|of|with|in|to|on|both|either|neither|de|d'|un|une|el|la|los|las|uno|o|os|as|um|uma|il|lo|gli|le|den|die|das|ein|eine|einen|bir|het|een|le|du)\s+|[`"'(]\s*)*$""",
    re.IGNORECASE | re.VERBOSE,
)
NEGATES_AFTER = re.compile(
    r"""^[`"')\s]*(?:\([^)]*\)\s*)?(?:
    (?:-\w+\s+)?(?:must|should|has\s+to|needs\s+to|ought\s+to)\s+(?:always\s+)?(?:be|stay|remain)\s+(?:kept\s+|left\s+|switched\s+|turned\s+)?(?:off|disabled|empty|unset|blank|out|omitted|avoided)
    |(?:is|are|was|decoding|sampling|search)?\s*(?:must|should|may|can|shall|ought)\s*(?:not|never)\s+(?:to\s+)?be\s+(?:used|set|enabled|added|sent|applied|passed|given|combined)
    |(?:is|are)\s+(?:strongly\s+|strictly\s+|explicitly\s+)?(?:not\s+(?:recommended|advised|advisable|allowed|supported)|discouraged|forbidden|off[\s-]limits|harmful|prohibited|to\s+be\s+avoided|ruled\s+out)
    |(?:is\s+)?not\s+recommended
    |[:=|–—-]?\s*(?:off|never|disabled|do\s+not\s+use|don't\s+use|not\s+used|unused|forbidden|avoid)\s*(?=[.;,!)\n]|$)
    |(?:switched|turned|left)?\s*(?:off|out|unset|disabled|empty|blank)(?=\s*(?:[.;,!)\n]|$|and|or))
    |(?:-?\w+\s+)?sollte\w*\s+(?:nicht\s+\w+\s+werden|verzichtet\s+werden|vermieden\s+werden)|(?:nicht|niemals|nie)\s+(?:verwenden|nutzen|benutzen|setzen|einsetzen|aktivieren|hinzufügen)|(?:sollte\w*|darf|dürfen)\s+nicht\s+\w+\s+werden|weglassen|ist\s+nicht\s+(?:empfohlen|zu\s+empfehlen)|aus(?:schalten|lassen)
    |(?:est|sont)\s+(?:à\s+éviter|déconseillé\w*|interdit\w*|proscrit\w*)|ne\s+(?:doit|doivent)\s+pas\s+être|à\s+éviter|déconseillé\w*
    |no\s+(?:se\s+recomienda|debe\s+usarse|debe\s+utilizarse|está\s+recomendad\w+)|está\s+desaconsejad\w+|desaconsejad\w+|prohibid\w+
    |não\s+(?:é\s+recomendad\w+|deve\s+ser|se\s+recomenda)|desaconselhad\w+|proibid\w+
    |non\s+(?:è\s+consigliat\w+|va\s+usat\w+|deve\s+essere|vanno\s+usat\w+)|sconsigliat\w+|da\s+evitare|vietat\w+
    |(?:['’]?\w{0,3}\s*)?(?:kullanmayın(?:ız)?|kullanılmamalı\w*|eklemeyin(?:iz)?|önerilmez|önerilmiyor|önermiyoruz|kaçının(?:ız)?|ayarlamayın|yazmayın|göndermeyin|vermeyin|yasak\w*|kapatın|kapalı\s+(?:tutun|olmalı))
    |(?:использовать\s+)?не\s+(?:рекоменду\w+|следует|используйте|нужно\s+использовать|применяйте|добавляйте|советуем)|запрещен\w*|(?:использовать\s+)?нельзя|(?:должн\w+|нужно)\s+(?:быть\s+)?(?:отключ\w+|выключ\w+)|противопоказан\w*
    |nie\s+(?:jest\s+zalecan\w+|należy|powinn\w+|używać)|niet\s+(?:gebruiken|aanbevolen)|wordt\s+afgeraden|jangan\s+digunakan|tidak\s+disarankan
    |(?:\s|[a-z]){0,4}(?:は|を|の使用は|の利用は|も|による\w+は)?(?:使用し|利用し|使わ|設定し|追加し|与え|入れ|用い)ない|(?:は|の使用は|を)?(?:使用|利用|指定|設定)?(?:は|を)?(?:しないで|避けて|お避け|非推奨|推奨(?:しません|されません|していません)|禁止|厳禁)
    |(?:을|를|은|는)?\s*(?:사용하지\s*(?:마|않|말)|쓰지\s*(?:마|않|말)|피하|권장하지\s*않|추가하지\s*마|비추천|금지)
    |(?:一律)?(?:不要(?:使用|添加|设置|启用|开启)|请?勿使用|不(?:建议|推荐|应|可)(?:使用)?|应(?:当|该)?避免|应?(?:关闭|禁用)|禁止使用|必须关闭)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
LEAVE_OUT = re.compile(
    r"(?:\b(?:leave|keep|turn|switch|drop|strip|take)|lass\w*)\s+(?:the\s+|your\s+|any\s+|out\s+|off\s+|both\s+)*$",
    re.IGNORECASE,
)
LEFT_OUT = re.compile(
    r"""^[\s`"')]*(?:(?:and|or|und|/|,)\s+(?:the\s+)?[\w\s-]{0,20}?)?(?:out|off|unset|empty|blank|disabled|away|weg|aus)(?![A-Za-z-])""",
    re.IGNORECASE,
)
# Said of a fact, not as advice.
DESCRIBES = Words(
    r"""(?:is|are|was|were)?(?: not| n't)? (?:needed|necessary|required)|needs? no|no need|optional|there is no|there's no|there are no|has no|have no|comes? with(?:out)?|ships? with(?:out)?|trained|evaluat\w*|tested|was|were|had|works? (?:fine |well |best |too |also )?without|default|supports?|supported|by itself|not supported|we used|runs? without|changes? nothing
    brauch\w*|nötig|es gibt kein\w*|hat kein\w*|ohne Belang|il n'y a (?:pas|aucun)\w*|besoin|nécessaire|no hay|no necesita\w*|necesari\w+|não há|não precisa\w*|necessári\w+|non (?:c'è|serve|ha)|gerek\w*|yoktur|yok|нет|не нужн\w*|не требуется|не имеет|обучал\w*|nie ma|nie potrzeb\w*""",
    r"没有 无需 不需要 不必 默认 必要はあり ありません 要りません 필요\s*없",
)
ADJECTIVE_BEFORE = re.compile(
    r"\b(?:high(?:er)?|low(?:er)?|large|small|very|extreme|different|other|long(?:er|er)?|multiple|several|custom|generic|additional|complex|lengthy|second|"
    r"hohe\w?|niedrige\w?|lange\w?|haute|basse|alta|baixa|baja|yüksek|düşük|высок\w+|низк\w+|длинн\w+)\s+$|(?:过高|过低|较高|高|长)的?\s*$",
    re.IGNORECASE,
)
SAYS_NO = re.compile(
    r"^\s*(?:A:|Answer:)?\s*(?:please\s+(?:do\s+not|don't)|no\b(?!\s+(?:need|problem|matter))|don't|do\s+not|never|better\s+not|rather\s+not|nein|bitte\s+nicht|non\b|no,|não|hayır|нет|лучше\s+не|nee|nie\b|不|いいえ|아니)",
    re.IGNORECASE,
)
SAYS_NEEDLESS = re.compile(r"need|necess|requir|nötig|besoin|gerek|нужн|需要|必要", re.IGNORECASE)
# "Without top-k it loops": a fact, unless something before it asks for it.
WITHOUT = re.compile(r"\b(?:without|ohne|sans|sin|sem|senza|без|zonder|bez)\b", re.IGNORECASE)
# Not asked for: "to disable top-k, …", "if you disable top-k", "you can turn off top-k".
ONLY_IF = re.compile(
    r"\b(?:if|when|unless|you\s+(?:can|may|could|might)|can\s+be|could|might|optionally|option\s+to|wenn|falls|si\s+(?:vous|quiere\w*|desea\w*)|se\s+(?:vuoi|volete|quiser)|если|eğer)\b|如果|若",
    re.IGNORECASE,
)
TO_DO = re.compile(
    r"\b(?:to|um|pour|para|per|чтобы)\s+(?:avoid|disable|turn\s+off|switch\s+off|omit|skip|drop|forgo)",
    re.IGNORECASE,
)
# "Never leave out the system prompt": two of these since the last comma or "and" cancel out.
NEGATION = re.compile(
    r"""\b(?:no|not|never|without|avoid|omit|skip|drop|disable|forget|leave\s+out|turn\s+off|switch\s+off|nicht|ohne|kein\w*|nie|niemals|pas|sans|jamais|sin|nunca|sem|não|non|senza|mai|не|без|никогда)\b|n't""",
    re.IGNORECASE | re.VERBOSE,
)
JOINS = re.compile(r",|\b(?:and|or|nor|und|oder|noch|et|ni|y|e|nem|né|и|ни|или)\b", re.IGNORECASE)
TOGETHER = re.compile(
    r"\b(?:at\s+the\s+same\s+time|together|simultaneously|both|gleichzeitig|en\s+même\s+temps|a\s+la\s+vez|ao\s+mesmo\s+tempo|insieme|одновременно)\b|同时|同時",
    re.IGNORECASE,
)
ONCE = re.compile(r"\W*(?:with|when|if|once|mit|avec|con|com|с|при)\s[^,]*$", re.IGNORECASE)
