"""Schemas of which no answer can end are told from those that merely can go on."""

from typing import Any

import pytest

from llm_specdec.constraints import finite, schemas
from llm_specdec.errors import UsageError
from tests.support.steps import steps_of

AGAIN = {"$ref": "#"}
NODE = {"$ref": "#/$defs/node"}


def object_of(required=("next",), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def with_node(node, top=NODE):
    return {**top, "$defs": {"node": node}}


def array_of(items, least, **more):
    return {"type": "array", "items": items, "minItems": least, **more}


NULL: Any = {"type": "null"}
EITHER: Any = {"anyOf": [object_of(next=AGAIN), array_of(AGAIN, 1)]}
TWO: dict[str, Any] = {
    "$ref": "#/$defs/a",
    "$defs": {
        "a": object_of(["b"], b={"$ref": "#/$defs/b"}),
        "b": object_of(["a"], a={"$ref": "#/$defs/a"}),
    },
}

ENDLESS: dict[str, tuple[dict[str, Any], str]] = {
    "a required property": (
        object_of(next=AGAIN),
        '#/properties/next leads back to #: take "next" out of "required", '
        "or let it be null",
    ),
    "through $defs": (
        with_node(object_of(next=NODE)),
        '#/$defs/node/properties/next leads back to #/$defs/node: take "next" out of',
    ),
    "reached from elsewhere": (
        with_node(object_of(next=NODE), object_of(["first"], first=NODE)),
        "#/$defs/node/properties/next leads back to #/$defs/node: ",
    ),
    "allOf": (
        with_node(object_of(next={"allOf": [NODE]})),
        "#/$defs/node/properties/next leads back to #/$defs/node: ",
    ),
    "items": (
        with_node(object_of(["kids"], kids=array_of(NODE, 1))),
        '#/$defs/node/properties/kids leads back to #/$defs/node: take "kids" out',
    ),
    "items of items": (array_of(AGAIN, 2), '#/items leads back to #: set "minItems" to 0'),
    "prefixItems": (
        array_of(False, 2, prefixItems=[NULL, AGAIN]),
        '#/prefixItems/1 leads back to #: set "minItems" to 1',
    ),
    "items after prefixItems": (
        array_of(AGAIN, 2, prefixItems=[NULL]),
        '#/items leads back to #: set "minItems" to 1',
    ),
    "items of an older draft": (
        array_of([NULL, AGAIN], 2),
        '#/items/1 leads back to #: set "minItems" to 1',
    ),
    "every branch": (EITHER, "#/anyOf/0/properties/next leads back to #/anyOf/0: "),
    "every type": (
        {**array_of(AGAIN, 1), **object_of(next=AGAIN), "type": ["array", "object"]},
        "#/properties/next leads back to #: ",
    ),
    "two that need each other": (
        TWO,
        '#/$defs/a/properties/b leads back to #/$defs/a: take "b" out',
    ),
    "unnamed properties": (
        {"type": "object", "required": ["next"], "additionalProperties": AGAIN},
        "#/additionalProperties leads back to #: ",
    ),
    "any property": (
        {"type": "object", "minProperties": 1, "additionalProperties": AGAIN},
        '#/additionalProperties leads back to #: set "minProperties" to 0',
    ),
    "names that pointers write otherwise": (
        {**object_of(["a/b"], **{"a/b": {"$ref": "#/$defs/x~1%7E0y"}}),
         "$defs": {"x/~y": object_of(["a/b"], **{"a/b": {"$ref": "#/$defs/x~1~0y"}})}},
        "#/$defs/x~1~0y/properties/a~1b leads back to #/$defs/x~1~0y: ",
    ),
}  # fmt: skip

FINITE: dict[str, dict[str, Any]] = {
    "an optional property": object_of([], next=AGAIN),
    "null beside it": with_node(object_of(next={"anyOf": [NODE, NULL]})),
    "null among the types": {**object_of(next=AGAIN), "type": ["object", "null"]},
    "no type": {"properties": {"next": AGAIN}, "required": ["next"]},
    "an empty array": with_node(object_of(["kids"], kids=array_of(NODE, 0))),
    "items that are not needed": array_of(AGAIN, 1, prefixItems=[NULL]),
    "prefixItems that are not needed": array_of(NULL, 1, prefixItems=[NULL, AGAIN]),
    "one branch": {"anyOf": [*EITHER["anyOf"], {"type": "string"}]},
    "enum": {"anyOf": [object_of(next=AGAIN), {"enum": [1, 2]}]},
    "const": {"anyOf": [object_of(next=AGAIN), {"const": "end"}]},
    "used twice": with_node({"type": "string"}, object_of(["a", "b"], a=NODE, b={"allOf": [NODE]})),
    "not needed anywhere": {"type": "string", "$defs": {"node": object_of(next=NODE)}},
    "two, of which one may end": {
        **TWO,
        "$defs": {**TWO["$defs"], "b": object_of([], a={"$ref": "#/$defs/a"})},
    },
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_schema_is_refused_with_its_place(name):
    schema, said = ENDLESS[name]
    with pytest.raises(UsageError) as caught:
        schemas.grammar(schema)
    message = str(caught.value)
    assert message.startswith(f"no answer to the schema can end: {said}")
    assert "\n" not in message


@pytest.mark.parametrize("name", FINITE)
def test_a_schema_that_can_end_is_kept(name):
    assert schemas.grammar(FINITE[name])


@pytest.mark.parametrize("wide", [True, False])
def test_four_times_the_parts_are_four_times_the_work(wide):
    def look(n):
        parts = {f"p{i}": object_of(next={"$ref": f"#/$defs/p{i + 1}"}) for i in range(n)}
        parts[f"p{n}"] = NULL
        schema = object_of(list(parts), **parts) if wide else {"$ref": "#/$defs/p0"}
        return steps_of(lambda: finite.circle({**schema, "$defs": parts}))

    assert look(240) < 4.5 * look(60)
