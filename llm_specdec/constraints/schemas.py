"""JSON schemas → grammars of llguidance, or one clear line why not. No tokens, no weights.

Output is what Python's `json.dumps` writes: one line, ": " and ", ". Models know that form,
and white space that a model may repeat for ever is not in it.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from llm_specdec.constraints import finite
from llm_specdec.errors import UsageError

_STYLE: Any = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", "}
# Beside these, whether an object stays satisfiable without unnamed properties is hard to tell.
_OPEN = {
    "additionalProperties", "patternProperties", "minProperties", "propertyNames", "$ref",
    "anyOf", "oneOf", "allOf", "unevaluatedProperties",
}  # fmt: skip
_VALUES = {"const", "enum", "default", "examples"}  # what they hold is no schema
_NAMING = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_JSON = (Mapping, list, tuple, str, int, float, type(None))
MOST_LEVELS = 120  # llguidance gives up a little later


def grammar(schema: Mapping[str, Any]) -> str:
    """The grammar of JSON that the schema allows.

    Objects that name their properties and say nothing of others get no others: a small model
    would make some up, and go on with it.
    Raises UsageError for an invalid schema, one that llguidance cannot enforce, and one of which
    no answer can end.
    """
    if problem := next(_problems(schema), ""):
        raise UsageError(f"the schema cannot be enforced: {problem}")
    closed = dict(schema) if "allOf" in json.dumps(schema) else _closed(schema)
    for one in (closed, dict(schema)):
        compiled, refused = _compiled(one)
        if not refused:
            break
    else:
        why = textwrap.shorten(refused, 300, placeholder=" …")
        raise UsageError(f"the schema cannot be enforced: {why}: change that part of it")
    if endless := finite.circle(schema):
        raise UsageError(f"no answer to the schema can end: {endless}")
    return compiled


def _problems(schema: Any) -> Iterator[str]:
    """What llguidance would choke on instead of refusing it. Without recursion: the schema may
    be nested deeper than Python goes."""
    ahead: list[tuple[str, Any, int]] = [("", schema, 1)]
    while ahead:
        key, value, level = ahead.pop()
        if isinstance(value, Mapping):
            inside = list(value.items())
            ahead += [("a name", name, level) for name in value]
        else:
            inside = (
                [(key, element) for element in value] if isinstance(value, list | tuple) else []
            )
        ahead += [(name, element, level + 1) for name, element in inside]
        if level > MOST_LEVELS:
            yield f"it is nested more than {MOST_LEVELS} levels deep: move parts into $defs"
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield f"{key} is {str(value)[:20]}…, more than 64 bits hold: take a smaller number"
        if not isinstance(value, _JSON):
            yield f"{key} is a {type(value).__name__}, which JSON does not have"
        if isinstance(value, str) and not value.isascii() and not _encodable(value):
            yield f"the text of {key or 'it'} is not UTF-8: convert it"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _compiled(schema: dict[str, Any]) -> tuple[str, str]:
    """The grammar, and why it cannot be used ("" where it can)."""
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_json_schema(schema, overrides=_STYLE)
    refused, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    return grammar, messages[0] if refused else ""


def _closed(schema: Any) -> Any:
    """The schema without properties that it does not name."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMING and isinstance(value, Mapping):  # their keys are names, not keywords
            closed[key] = {name: _closed(part) for name, part in value.items()}
        else:
            closed[key] = value if key in _VALUES else _closed(value)
    named = isinstance(schema.get("properties"), Mapping) and bool(schema["properties"])
    if named and not _OPEN & schema.keys():
        closed["additionalProperties"] = False
    return closed
