import click
from llm.cli import cli

from llm_specdec.adapter.options import told_apart


def test_stored_options_are_told_from_those_of_the_call(llm_user):
    (llm_user / "model_options.json").write_text('{"q": {"top_k": "5", "min_p": "0.1"}}')
    merged = {"top_k": "9", "min_p": "0.1", "seed": "1"}
    with click.Context(cli) as context:
        context.params = {"options": (("top_k", "9"), ("seed", "1"))}
        stored, given = told_apart("q", merged)
    assert (stored, given) == ({"min_p": "0.1"}, {"top_k": "9", "seed": "1"})
    assert told_apart("q", merged) == ({}, merged)
