import pytest

from llm_specdec.errors import UsageError
from llm_specdec.prompting.thinking import template_arguments

TURNS = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.reasoning_effort }}{% endfor %}"
PLAIN = TURNS + "{# enable_thinking is for other models #}thinking"
# Spelt as the families spell it; the texts are made up.
SWITCH = (
    TURNS + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)
OTHER_SWITCH = "{% if not thinking is defined %}{% set thinking = false %}{% endif %}" + TURNS
BUDGET = TURNS + "{% if thinking_budget == 0 %}no{% endif %}<think>"
ANY_EFFORT = (
    '{% if reasoning_effort is not defined %}{% set reasoning_effort = "medium" %}{% endif %}'
    + TURNS
)
EFFORTS = TURNS + "{% if reasoning_effort in ['low', 'max'] %}{{ reasoning_effort }}{% endif %}"
WITH_NONE = TURNS + "{% if reasoning_effort == 'none' or reasoning_effort == 'high' %}x{% endif %}"
BOTH = SWITCH + "{{ reasoning_effort | default('high') }}"
ALWAYS = TURNS + "{% if add_generation_prompt %}<think>{% endif %}"
TRACKED = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}"
TRACKED += "{% endfor %}{{ enable_thinking }}"


@pytest.mark.parametrize(
    ("template", "thinking", "arguments"),
    [
        (SWITCH, "on", {"enable_thinking": True}),
        (SWITCH, "off", {"enable_thinking": False}),
        (SWITCH, None, {}),
        (OTHER_SWITCH, "on", {"thinking": True}),
        (OTHER_SWITCH, "off", {"thinking": False}),
        (BUDGET, "on", {}),
        (BUDGET, "off", {"thinking_budget": 0}),
        (ANY_EFFORT, "high", {"reasoning_effort": "high"}),
        (ANY_EFFORT, "on", {}),
        (EFFORTS, "max", {"reasoning_effort": "max"}),
        (WITH_NONE, "off", {"reasoning_effort": "none"}),
        (BOTH, "low", {"reasoning_effort": "low", "enable_thinking": True}),
        (BOTH, "off", {"enable_thinking": False}),
        (ALWAYS, "on", {}),
        (PLAIN, "off", {}),
        (TRACKED, "off", {"enable_thinking": False}),
        (None, "on", {"enable_thinking": True}),
        (None, None, {}),
    ],
)
def test_thinking_reaches_the_template_by_the_name_it_has(template, thinking, arguments):
    assert template_arguments(template, thinking, {}) == arguments


@pytest.mark.parametrize(
    ("template", "thinking", "words"),
    [
        (PLAIN, "on", "knows no thinking"),
        (PLAIN, "low", "no thinking effort 'low'"),
        (SWITCH, "high", "set on or off"),
        (ALWAYS, "off", "cannot switch thinking off"),
        (ANY_EFFORT, "off", "always thinks: set thinking to low or medium or high"),
        (ANY_EFFORT, "extreme", "low or medium or high"),
        (EFFORTS, "medium", "low or max"),
        (None, "high", "set on or off"),
        ("{% if %}", "on", "cannot be read"),
    ],
)
def test_what_a_template_does_not_know_is_an_error(template, thinking, words):
    with pytest.raises(UsageError, match=words) as error:
        template_arguments(template, thinking, {})
    assert "\n" not in str(error.value)


def test_further_arguments_must_be_the_templates_own_and_win():
    given = {"enable_thinking": True}
    assert template_arguments(SWITCH, "off", given) == given
    with pytest.raises(UsageError, match="no argument 'enable_thinkin': it has enable_thinking"):
        template_arguments(SWITCH, None, {"enable_thinkin": True})
    with pytest.raises(UsageError, match="it has none"):
        template_arguments(PLAIN, None, {"reasoning_effort": "low"})


def test_a_template_that_knows_a_budget_is_told_of_it():
    assert template_arguments(BUDGET, "on", {}, 50) == {"thinking_budget": 50}
    assert template_arguments(BUDGET, "off", {}, 50) == {"thinking_budget": 0}
    assert template_arguments(SWITCH, None, {}, 50) == {}
    assert template_arguments(BUDGET, None, {"thinking_budget": 7}, 50) == {"thinking_budget": 7}
