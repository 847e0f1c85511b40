"""Schemas that cannot be kept to are refused before anything is loaded."""

import json
from typing import Any

import pytest
from llm.utils import schema_dsl

from llm_specdec.constraints import schemas
from llm_specdec.errors import UsageError

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
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_enforced_is_refused_in_one_line(name):
    with pytest.raises(UsageError, match=r"^the schema cannot be enforced: .+") as caught:
        schemas.grammar(REFUSED[name])
    assert "\n" not in str(caught.value)


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


def test_parts_that_all_apply_are_left_open():
    parts = [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
    ]
    assert "additionalProperties" not in json.dumps(
        properties_of(schemas.grammar({"allOf": parts}))
    )
