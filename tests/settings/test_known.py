import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_specdec.errors import UsageError
from llm_specdec.settings import SETTINGS, check, parse


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0", 0.0),
        ("temperature", "1.", 1.0),
        ("temperature", ".5", 0.5),
        ("top_p", "1e-1", 0.1),
        ("top_k", "20", 20),
        ("seed", "0", 0),
        ("stop", "END", ["END"]),
        ("stop", '["a", "b"]', ["a", "b"]),
        ("stop", "[END]", ["[END]"]),
        ("stop", "[1]", ["[1]"]),
        ("stop", "[]", []),
        ("thinking", "true", "on"),
        ("thinking", "low", "low"),
        ("system", "You are terse.", "You are terse."),
        ("chat_template_kwargs", '{"enable_thinking": false}', {"enable_thinking": False}),
        ("logit_bias", '{"42": -5}', {"42": -5.0}),
        ("draft", "off", False),
        ("draft_tokens", "auto", "auto"),
        ("draft_tokens", "4", 4),
        ("kv_bits", "8", 8),
    ],
)
def test_a_text_becomes_its_value(name, text, value):
    assert parse(name, text) == value
    assert type(parse(name, text)) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("temperature", "-1"),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("temperature", "1e999"),
        ("temperature", "1_0"),
        ("temperature", "hot"),
        ("temperature", ""),
        ("top_p", "0"),
        ("top_p", "1.01"),
        ("top_k", "-1"),
        ("top_k", "1.5"),
        ("top_k", "٣"),
        ("repetition_penalty", "0"),
        ("max_tokens", "0"),
        ("max_tokens", "9" * 400),
        ("seed", "-1"),
        ("stop", ""),
        ("stop", '["a", 1]'),
        ("stop", '["a"'),
        ("stop", '["a", ' + "[" * 5000),
        ("kv_bits", "7"),
        ("penalty_scope", "all"),
        ("thinking", "Very Hard"),
        ("system", " "),
        ("chat_template_kwargs", "[]"),
        ("chat_template_kwargs", '{"a": NaN}'),
        ("logit_bias", '{"the": 1}'),
        ("logit_bias", '{"1": 101}'),
        ("draft", "maybe"),
        ("draft_tokens", "0"),
    ],
)
def test_a_wrong_text_is_refused_with_the_allowed_form(name, text):
    with pytest.raises(UsageError) as error:
        parse(name, text)
    assert SETTINGS[name].form.form in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["temperature", "top_k", "seed", "kv_bits", "draft_tokens"])
def test_a_truth_value_is_no_number(name):
    with pytest.raises(UsageError):
        check(name, True)


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean temperature"):
        parse("temprature", "1")


def test_every_default_is_a_value_of_its_setting():
    for name, setting in SETTINGS.items():
        if setting.default is not None:
            assert check(name, setting.default) == setting.default


@given(st.text())
def test_any_text_is_a_value_or_one_clear_line(text):
    for name in SETTINGS:
        try:
            value = parse(name, text)
        except UsageError as error:
            assert str(error).startswith(f"{name} must be ")
        else:
            assert check(name, value) == value
            assert not isinstance(value, float) or math.isfinite(value)
