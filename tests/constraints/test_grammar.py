"""What a schema allows, and that every lane writes exactly that."""

import json
import random
from types import SimpleNamespace

import pytest

from fixtures import schema_runs
from fixtures.schema_runs import EOS, constraint
from llm_specdec.constraints import grammar
from llm_specdec.constraints.masks import tokens_of
from llm_specdec.engine.request import RunStats
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.errors import UnsupportedError, UsageError
from tests.support.schemas import PERSON, ids


def fed(text, schema=PERSON, max_tokens=1000):
    found = constraint(schema, max_tokens)
    found.commit(ids(text))
    return found


def allowed(found, drafts=()):
    bits = found.allowed(drafts)
    assert bits is not None
    return tokens_of(bits)


def may_follow(found, drafts=()):
    """Texts of the tokens allowed, the end token as "END"."""
    decode = schema_runs.tokenizer().decode
    return {"END" if token == EOS else decode([token]) for token in allowed(found, drafts)}


def test_the_end_is_allowed_exactly_where_the_grammar_accepts():
    text = '{"name": "Ann", "age": 31}'
    tokens = ids(text)
    for i in range(len(tokens)):
        assert "END" not in may_follow(constraint(PERSON, 1000), tokens[:i]), tokens[:i]
    assert may_follow(constraint(PERSON, 1000), tokens) == {"END"}
    number = constraint({"type": "integer"}, 1000)
    assert "END" not in may_follow(number)
    assert {"END", "1"} < may_follow(number, ids("4"))


def test_only_named_properties_in_their_order_on_one_line():
    assert may_follow(fed('{"name": "Ann"')) <= {",", ', "', ', "a', ", "}
    assert "}" not in may_follow(fed('{"name": "Ann"'))
    assert may_follow(fed('{"name": "Ann", "age": 3')) >= {"}", "1"}
    assert not {" ", "\n", ","} & may_follow(fed('{"name": "Ann", "age": 3'))


def test_drafts_leave_no_trace_and_commits_do():
    found = fed('{"name": "A')
    before = may_follow(found)
    assert may_follow(found, ids('nn", "age": 3')) >= {"}", "0"}
    assert may_follow(found) == before
    found.commit(ids('nn", "age": 3'))
    assert may_follow(found) >= {"}", "0"}
    found.commit(ids("}"))
    assert found.complete
    found.commit([EOS])
    assert found.complete


def test_what_follows_a_draft_that_is_not_allowed_or_an_end_does_not_matter():
    found = fed('{"name": "Ann", "age": 3}')
    assert found.allowed([EOS]) is None
    assert found.allowed(ids("}")) is None
    assert may_follow(found) == {"END"}


def test_special_tokens_are_no_text():
    assert not {0, 1, EOS} & set(allowed(fed('{"name": "')))


def test_too_few_tokens_for_any_answer_are_refused():
    with pytest.raises(UsageError, match=r"max_tokens 5 is too little .* about [0-9]+ tokens"):
        constraint(PERSON, 5)


def test_a_tokenizer_written_in_python_is_refused():
    slow = SimpleNamespace(_tokenizer="no tokenizer", eos_token_ids=[1])
    with pytest.raises(UnsupportedError, match="tokenizers library"):
        grammar.read(slow, 10)


ENDINGS = [
    PERSON,
    {"type": "string", "minLength": 30},
    {"type": "string", "pattern": "^[a-z]+-[0-9]{4}$"},
    {"type": "string", "format": "date-time"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 5},
    {"enum": ["Zürich", "größte", "東京"]},
    {"type": "object", "patternProperties": {"^x": {"type": "boolean"}}, "minProperties": 2},
    {
        "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/o"}}}}
        | {"o": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
        "$ref": "#/$defs/n",
    },
]


@pytest.mark.parametrize("schema", ENDINGS, ids=json.dumps)
def test_however_tokens_are_chosen_the_json_is_whole_in_time(schema):
    """Whoever chooses at random among what is allowed ends in time, at every max_tokens."""
    least = schema_runs.room(schema, 1)
    for seed in range(4):
        rng, out = random.Random(seed), list[int]()
        found = constraint(schema, most := least + 7 * seed)
        while len(out) < most and EOS not in out:
            out.append(rng.choice(allowed(found)))
            found.commit(out[-1:])
        schema_runs.Written(out, found, RunStats()).check(schema)


def test_steering_is_told_only_where_it_ruled_something_out():
    found = constraint(PERSON, 200)
    found.commit(ids('{"name": "Ann", "age": 31}'))
    found.allowed([])
    assert found.complete and not found.steered and not found.closed
    early = constraint(PERSON, 30)
    while not early.complete:
        early.commit([min(allowed(early), key=lambda token: token != ids("a")[0])])
    assert early.closed


def a_few(n=10):
    rng = random.Random(5)
    return [schema_runs.random_schema(rng) for _ in range(n)]


@pytest.mark.parametrize("schema", a_few(), ids=lambda s: json.dumps(s)[:60])
def test_every_lane_writes_the_same_json_of_the_schema(schema):
    most = schema_runs.room(schema, 24)
    plain = schema_runs.write("none", schema, most)
    plain.check(schema)
    for lane in schema_runs.LANES[1:]:
        drafted = schema_runs.write(lane, schema, most)
        assert drafted.text == plain.text, lane
        assert drafted.tokens == plain.tokens, lane


@pytest.mark.parametrize("seed", range(3))
def test_an_assistant_writes_the_same_json_too(seed):
    """Also where the schema forbids all tokens of the clusters that it chose."""
    schema = schema_runs.random_schema(random.Random(seed))
    most = schema_runs.room(schema, 24)
    plain, drafted = (
        schema_runs.write(lane, schema, most, family="gemma4") for lane in ("none", "assistant")
    )
    assert drafted.tokens == plain.tokens and drafted.stats.drafted
    plain.check(schema)
    hot = Sampling(temperature=1.0)
    schema_runs.write("assistant", schema, most, hot, family="gemma4").check(schema)


@pytest.mark.parametrize("lane", schema_runs.LANES)
def test_sampled_json_is_of_the_schema_too(lane):
    hot = Sampling(temperature=1.5, top_p=0.95, repetition_penalty=1.2)
    for schema in a_few(4):
        schema_runs.write(lane, schema, schema_runs.room(schema, 24), hot).check(schema)


def test_a_schema_without_end_is_cut_and_says_so():
    # Its circle goes through two parts of an allOf, which `finite` does not put together.
    parts = [{"properties": {"n": {"$ref": "#"}}}, {"required": ["n"]}]
    endless = {"type": "object", "allOf": parts}
    written = schema_runs.write("none", endless, 40)
    assert written.constraint is not None
    assert not written.constraint.complete
    assert len(written.tokens) == 40 or written.tokens[-1] == EOS
