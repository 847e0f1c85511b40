"""Promises of the reader that hold for any card."""

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_specdec.cards import Card, read
from llm_specdec.cards.front import base_models, body_start
from llm_specdec.cards.reader import read_text
from tests.support.card_cases import CASES

VOCABULARY = """temperature top_p top-k min_p Temp max_tokens repetition penalty system prompt
    greedy 0.6 1,1 32,768 .95 0 -1 between and to or = : , ; . ? ( ) | - * # > ` ``` ~~ ** $ we
    recommend use do not never avoid should must essential thinking non-thinking coding default
    benchmark was 推荐 温度 不要 рекомендуем температура öneriyoruz <b> </b> <table> <tr><td>
    <details> </details> <!-- --> [x](y) --- YAML: {"temperature": 0.6} --temp 0.7 PARAMETER"""
WORDS = [*VOCABULARY.split(), "\n", "\n\n", "\n- ", "\n1. ", "\n|---|\n", "\n| ", " |"]
SOME = pytest.mark.parametrize("case", CASES[::4], ids=lambda case: case["id"])
TEXTS = st.lists(st.sampled_from(WORDS), max_size=120).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(TEXTS | st.text(max_size=400))
def test_no_text_makes_it_fail(text):
    said = read_text(text, "a/x-7b")
    last = len(text.splitlines())
    places: list[Any] = [*said.recommended, *said.ranges, *said.forbidden, *said.required]
    assert all(1 <= entry.line <= last for entry in places)


@settings(max_examples=30, deadline=None)
@given(TEXTS)
def test_what_is_required_is_recommended(text):
    said = read_text(text, "a/x-7b")
    found = {(f.setting, f.value) for f in said.recommended}
    assert {(r.setting, r.value) for r in said.required} <= found


def moved(case, change):
    repos = {
        name: {**files, "README.md": files["README.md"] and change(files["README.md"])}
        for name, files in case["repos"].items()
    }
    return read(repos, case["target"]).to_dict()


def without_lines(data):
    return {
        key: [{k: v for k, v in entry.items() if k != "line"} for entry in value]
        if isinstance(value, list) and value and isinstance(value[0], dict)
        else value
        for key, value in data.items()
    }


@SOME
def test_windows_line_ends_change_nothing(case):
    assert moved(case, lambda text: text.replace("\n", "\r\n")) == moved(case, str)


@SOME
def test_a_paragraph_above_moves_lines_and_nothing_else(case):
    def insert(text):
        lines = text.split("\n")
        at = body_start(text)
        return "\n".join([*lines[:at], "", "Words about a river.", "", *lines[at:]])

    here, there = moved(case, str), moved(case, insert)
    assert without_lines(there) == without_lines(here)
    for one, other in zip(here["recommended"], there["recommended"], strict=True):
        assert (one["line"] or 0) + (3 if one["line"] else 0) == (other["line"] or 0)


def test_reading_is_the_same_after_json():
    for case in CASES[:5]:
        card = read(case["repos"], case["target"])
        assert pydantic.TypeAdapter(Card).validate_json(json.dumps(card.to_dict())) == card


@pytest.mark.parametrize(
    ("front", "names"),
    [
        ("base_model: a/b", ["a/b"]),
        ("base_model: [a/b, c/d, a/b]", ["a/b", "c/d"]),
        ("base_model:\n- https://huggingface.co/a/b", ["a/b"]),
        ("base_model: 7", []),
        ("base_model: [", []),
        ("base_model: a/b\ndate: 2024-02-30", []),
        ("base_model: " + "[" * 10_000, []),
        ("license: mit", []),
    ],
)
def test_base_models_come_from_the_front_matter(front, names):
    assert base_models(f"---\n{front}\n---\n# X\nbase_model: x/y\n") == names


def test_lines_are_counted_as_editors_count_them():
    text = "# X\n\nOne\u2028two\x0bthree\x85four.\n\nWe recommend temperature 0.6.\n"
    assert [f.line for f in read_text(text, "a/x-7b").recommended] == [5]


def test_without_front_matter_there_is_no_base():
    assert base_models("# X\n\nbase_model: x/y\n") == []
    assert base_models(None) == []


def test_a_base_that_was_not_read_is_noted():
    text = "---\nbase_model: acme/gone\n---\n# X\n"
    card = read({"a/x": {"README.md": text, "generation_config.json": None}}, "a/x")
    assert card.notes == [
        "acme/gone: the card of this base was not read (gone, gated or out of reach)"
    ]


def test_the_title_advises_nothing_and_other_top_headings_do():
    text = "# Best 7B\n\n- temperature 0.9\n\n# Recommended settings\n\n- temperature 0.6\n"
    assert [(f.value, f.line) for f in read_text(text, "a/best-7b").recommended] == [(0.6, 7)]
