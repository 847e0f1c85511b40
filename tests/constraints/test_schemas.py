"""Schemas that cannot be kept to are refused before anything is loaded."""

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from llm.utils import schema_dsl

from llm_specdec.constraints import schemas
from llm_specdec.errors import UsageError


def nested(levels: int, around: Callable[[Any], Any]) -> Any:
    return functools.reduce(lambda inner, _: around(inner), range(levels), {})


REFUSED: dict[str, dict[str, Any]] = {
    "no such type": {"type": "strin"},
    "required is a list": {"type": "object", "required": "name"},
    "lookahead": {"type": "string", "pattern": "(?=a)b"},
    "broken pattern": {"type": "string", "pattern": "["},
    "not": {"not": {"type": "string"}},
    "uniqueItems": {"type": "array", "uniqueItems": True},
    "unknown format": {"type": "string", "format": "hostname-of-mine"},
    "dangling": {"$ref": "#/$defs/nowhere"},
    "nothing fits": {"type": "string", "minLength": 5, "maxLength": 3},
    "remote": {"$ref": "http://example.com/schema"},
    "no number": {"type": "number", "minimum": 10**400},
    "no text": {"const": "\ud800"},
    "no name": {"type": "object", "properties": {"\ud800": {"type": "string"}}},
    "no JSON": {"const": b"x"},
    "long pattern": {"type": "string", "pattern": "(" * 10_000},
    "deep": nested(900, lambda inner: {"items": inner}),
    "deep in a value": {"const": nested(5000, lambda inner: [inner])},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_enforced_is_refused_in_one_line(name):
    with pytest.raises(UsageError, match=r"^the schema cannot be enforced: .+") as caught:
        schemas.grammar(REFUSED[name])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def properties_of(found):
    return json.loads(found)["grammars"][0]["json_schema"]


def test_unnamed_properties_are_left_out_wherever_that_is_safe():
    concise = properties_of(schemas.grammar(schema_dsl("name, age int", multi=True)))
    assert concise["additionalProperties"] is False
    assert concise["properties"]["items"]["items"]["additionalProperties"] is False
    asked = {"type": "object", "properties": {"a": {}}, "additionalProperties": True}
    assert properties_of(schemas.grammar(asked))["additionalProperties"] is True
    named = {"type": "object", "properties": {"properties": {"type": "string"}}}
    assert properties_of(schemas.grammar(named))["properties"]["properties"] == {"type": "string"}
    free = {"type": "object"}
    assert "additionalProperties" not in properties_of(schemas.grammar(free))


@pytest.mark.parametrize("name", ["default", "const", "enum", "examples", "properties", "$defs"])
def test_a_property_may_be_named_like_a_keyword(name):
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    for where in ("properties", "$defs"):
        schema = {"type": "object", "properties": {"x": {"type": "string"}}, where: {name: inner}}
        found = properties_of(schemas.grammar(schema))
        assert found[where][name]["additionalProperties"] is False
    value = {"properties": {"a": 1}}
    assert properties_of(schemas.grammar({"const": value}))["const"] == value


def test_a_schema_of_the_deepest_kind_is_kept():
    deepest = nested(schemas.MOST_LEVELS - 2, lambda inner: {"type": "array", "items": inner})
    assert schemas.grammar({**deepest, "minItems": 0})


def test_parts_that_all_apply_are_left_open():
    parts = [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
    ]
    assert "additionalProperties" not in json.dumps(
        properties_of(schemas.grammar({"allOf": parts}))
    )
