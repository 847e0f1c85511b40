"""JSON schemas → grammars of llguidance, or one clear line why not. No tokens, no weights.

Output is what Python's `json.dumps` writes: one line, ": " and ", ". Models know that form,
and white space that a model may repeat for ever is not in it.
"""

import json
from collections.abc import Mapping
from typing import Any

from llm_specdec.constraints import finite
from llm_specdec.errors import UsageError

_STYLE: Any = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", "}
# Beside these, whether an object stays satisfiable without unnamed properties is hard to tell.
_OPEN = {
    "additionalProperties", "patternProperties", "minProperties", "propertyNames", "$ref",
    "anyOf", "oneOf", "allOf", "unevaluatedProperties",
}  # fmt: skip


def grammar(schema: Mapping[str, Any]) -> str:
    """The grammar of JSON that the schema allows.

    Objects that name their properties and say nothing of others get no others: a small model
    would make some up, and go on with it.
    Raises UsageError for an invalid schema, one that llguidance cannot enforce, and one of which
    no answer can end.
    """
    closed = dict(schema) if "allOf" in json.dumps(schema) else _closed(schema)
    for one in (closed, dict(schema)):
        found, refused = _compiled(one)
        if not refused:
            break
    else:
        raise UsageError(
            f"the schema cannot be enforced: {' '.join(refused.split())}: change that part of it"
        )
    if endless := finite.circle(schema):
        raise UsageError(f"no answer to the schema can end: {endless}")
    return found


def _compiled(schema: dict[str, Any]) -> tuple[str, str]:
    """The grammar, and why it cannot be used ("" where it can)."""
    from llguidance import LLMatcher

    found = LLMatcher.grammar_from_json_schema(schema, overrides=_STYLE)
    refused, messages = LLMatcher.validate_grammar_with_warnings(found)
    return found, messages[0] if refused else ""


def _closed(schema: Any) -> Any:
    """The schema without properties that it does not name."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        key: value if key in ("const", "enum", "default", "examples") else _closed(value)
        for key, value in schema.items()
    }
    named = isinstance(schema.get("properties"), Mapping) and bool(schema["properties"])
    if named and not _OPEN & schema.keys():
        found["additionalProperties"] = False
    return found
