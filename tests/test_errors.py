from llm_specdec.errors import UnsupportedError


def test_a_message_is_one_line_whatever_is_quoted_in_it():
    error = UnsupportedError("cannot load: Received 2 parameters:\n  a,\n\n  b: use another")
    assert str(error) == "cannot load: Received 2 parameters: a, b: use another"
