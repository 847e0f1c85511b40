"""`llm --schema` with SmolLM2, as a shell user and as a Python user meet it."""

import json
from typing import Any

import llm
import pydantic
import pytest
from llm.utils import schema_dsl

from tests.support.command_line import run
from tests.support.receipts import logged_receipts

pytestmark = pytest.mark.real

TEXT = "Extract the person: Ann Lee is 31 years old."

# A pinned draft length: no costs are measured. Few tokens: a small model may tell stories.
OPTIONS: Any = {"temperature": 0, "max_tokens": 60, "draft_tokens": 4}
GREEDY = [part for name, value in OPTIONS.items() for part in ("-o", name, str(value))]


@pytest.mark.parametrize("model", ["plain", "look", "small"])
def test_the_concise_form_gives_its_properties(pairings, model):
    result = run("-m", model, "--schema", "name, age int", *GREEDY, TEXT)
    assert result.exit_code == 0
    assert json.loads(result.stdout).keys() == {"name", "age"}
    assert result.stderr == ""


def test_many_and_a_receipt(pairings):
    result = run("-m", "look", "--schema-multi", "name, age int", *GREEDY, TEXT)
    found = json.loads(result.stdout)
    assert found.keys() == {"items"} and found["items"]
    assert all(item.keys() == {"name", "age"} for item in found["items"])
    (receipt,) = logged_receipts()
    assert receipt["constraint"]["kind"] == "schema" and receipt["constraint"]["complete"]
    assert receipt["draft"]["drafted"] > 0


def test_max_tokens_end_the_json_and_it_is_said(pairings):
    result = run(
        "-m", "plain", "--schema", "story, age int", "-o", "max_tokens", "24", "Write a long story."
    )
    assert result.exit_code == 0
    assert set(json.loads(result.stdout)) == {"story", "age"}
    assert result.stderr == (
        "Warning: the JSON is valid but was ended early: max_tokens 24 was reached, raise it\n"
    )


@pytest.mark.parametrize(("stop", "shown"), [('"age"', '{"name": "'), ("}", '{"name": "')])
def test_json_that_a_stop_string_cut_is_said_to_be(pairings, stop, shown):
    schema = '{"properties": {"name": {"enum": ["A"]}, "age": {"enum": [3]}}, "type": "object"'
    schema += ', "required": ["name", "age"]}'
    options = ["-o", "max_tokens", "40", "-o", "stop", stop]
    result = run("-m", "plain", "--schema", schema, *options, "hi")
    assert result.exit_code == 0 and result.stdout.startswith(shown)
    assert (
        result.stderr == f"Warning: the JSON is cut and not valid: the stop string {stop!r} came\n"
    )
    (receipt,) = logged_receipts()
    assert receipt["constraint"] == {"kind": "schema", "complete": False, "ended_early": False}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "strin"}', "the schema cannot be enforced: Invalid type: strin"),
        ('{"not": {}}', "the schema cannot be enforced: Unimplemented keys"),
    ],
)
def test_a_schema_that_cannot_be_kept_to_is_refused_before_loading(pairings, schema, said):
    result = run("-m", "small", "--schema", schema, "hi")
    assert result.exit_code == 1 and result.stdout == ""
    assert said in result.error


def test_too_little_room_for_any_answer(pairings):
    result = run("-m", "plain", "--schema", "name, age int", "-o", "max_tokens", "4", "hi")
    assert result.exit_code == 1 and result.stdout == ""
    assert "max_tokens 4 is too little for this schema" in result.error


def test_a_pydantic_class_through_the_api(pairings):
    class Person(pydantic.BaseModel):
        name: str
        age: int

    response = llm.get_model("look").prompt(TEXT, schema=Person, **OPTIONS)
    assert "Ann" in Person.model_validate_json(response.text()).name
    same = llm.get_model("look").prompt(TEXT, schema=schema_dsl("name, age int"), **OPTIONS)
    assert same.text() == response.text()
