import pytest

from llm_specdec.checkpoint import Positions
from llm_specdec.drafters.recognise import read
from tests.support.checkpoints import tokenizer_json, trunk, write_json, write_model

WORDS = [f"w{i}" for i in range(99)]


def vocabulary(folder, words=WORDS, config=None, generation=None, tokenizer=None, **vocab):
    model = tokenizer_json(words=words, merges=(), special=("<end>",))
    model["model"]["vocab"] |= vocab
    write_model(folder, config, tokenizer=model)
    write_json(folder / "generation_config.json", generation or {})
    write_json(folder / "tokenizer_config.json", tokenizer or {})
    return read(folder).vocabulary


def test_a_vocabulary_that_fills_its_rows_has_nothing_to_say(tmp_path):
    found = vocabulary(tmp_path)
    assert (found.rows, found.size, found.holes, found.beyond) == (100, 100, (), ())
    assert found.notes == found.warnings == ()
    assert found.positions == Positions(512)


def test_rows_at_the_end_are_cut_and_holes_are_named(tmp_path):
    found = vocabulary(tmp_path, words=WORDS[:40], far=50)
    assert (found.rows, found.size) == (100, 51)
    assert found.holes == tuple(range(41, 50))
    assert found.notes == ("9 ids (first 41) without a token among the others: never drawn",)


def test_ids_beyond_the_rows_are_a_warning_and_refused(tmp_path):
    found = vocabulary(tmp_path, words=WORDS[:40], far=100, farther=2**40)
    assert (found.size, found.holes, found.beyond) == (41, (), (100, 2**40))
    assert found.missing([0, 99]) is None
    assert (found.missing([5, 100]), found.missing([-1])) == (100, -1)
    [warning] = found.warnings
    assert warning.startswith("the tokenizer has 2 ids (first 100) beyond the 100 rows")


@pytest.mark.parametrize(
    ("config", "generation", "tokenizer", "ends"),
    [
        ({"eos_token_id": 5}, {}, {}, (5,)),
        ({"text_config": {"eos_token_id": [5, 6]}}, {}, {}, (5, 6)),
        ({"eos_token_id": [5, 6, 7]}, {"eos_token_id": 6}, {}, (5, 6, 7)),
        ({"eos_token_id": 5}, {"eos_token_id": [5, 8]}, {"eos_token": "<end>"}, (5, 8, 99)),
        ({}, {}, {"eos_token": {"content": "w3"}}, (3,)),
        ({"eos_token_id": None}, {"eos_token_id": "5"}, {"eos_token": None}, ()),
    ],
)
def test_every_end_token_that_a_file_names_ends_an_answer(
    tmp_path, config, generation, tokenizer, ends
):
    found = vocabulary(tmp_path, config=config, generation=generation, tokenizer=tokenizer)
    assert found.ends == ends
    facts = read(tmp_path).tokenizer
    assert facts and facts.special_ids.get("eos", ()) == ends


def test_files_that_name_other_end_tokens_are_noted(tmp_path):
    found = vocabulary(tmp_path, config={"eos_token_id": [5, 6]}, generation={"eos_token_id": 6})
    assert found.notes == (
        "end tokens differ, and all of them end an answer: config.json 5, 6; "
        "generation_config.json 6",
    )


def test_an_end_token_has_its_chance_even_without_a_text(tmp_path):
    found = vocabulary(tmp_path, words=WORDS[:40], config={"eos_token_id": 45})
    assert (found.size, found.holes, found.ends) == (46, (41, 42, 43, 44), (45,))


def test_an_end_token_beyond_the_rows_ends_nothing(tmp_path):
    found = vocabulary(tmp_path, config={"eos_token_id": [5, 100]})
    assert found.ends == (5,)
    assert found.warnings == ("end token 100 is none of the model's, whose ids end at 99",)


def test_without_a_tokenizer_file_every_row_may_be_a_token(tmp_path):
    vocabulary(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    found = read(tmp_path).vocabulary
    assert (found.size, found.holes, found.beyond) == (100, (), ())


def test_rows_are_those_of_the_tensors_whatever_else_looks_like_an_embedding(tmp_path):
    shapes = trunk() | {"vision_tower.embeddings.weight": ("F16", (7, 64))}
    write_model(tmp_path, shapes=shapes)
    assert read(tmp_path).vocabulary.rows == 100
