"""A schema for tests, and texts as tokens of the tokenizer that its runs use."""

from fixtures import schema_runs

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def ids(text: str) -> list[int]:
    tokens: list[int] = schema_runs.tokenizer().encode(text)
    return tokens
