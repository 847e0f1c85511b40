"""Text while it streams: stop strings across tokens, and nothing shown that is taken back."""

from hypothesis import given
from hypothesis import strategies as st

from llm_specdec.engine.text import TextStream


class Pieces:
    """A detokenizer whose tokens are indices into a list of texts."""

    def __init__(self, pieces):
        self.pieces = pieces
        self.last_segment = ""

    def reset(self):
        self.last_segment = ""

    def add_token(self, token):
        self.last_segment = self.pieces[token]

    def finalize(self):
        self.last_segment = ""


def stream(pieces, stop):
    """(what was shown piece by piece, tokens fed until it stopped)."""
    text = TextStream(Pieces(pieces), stop)
    shown, fed = [], 0
    for token in range(len(pieces)):
        fed += 1
        stopped = text.feed(token)
        shown.append(text.take())
        if stopped:
            break
    shown.append(text.finish())
    return shown, fed


def test_a_stop_string_across_three_tokens_is_never_shown():
    shown, fed = stream(["Hello ", "<", "EN", "D> more"], ["<END>"])
    assert "".join(shown) == "Hello "
    assert fed == 4
    assert shown[1] == shown[2] == ""  # held back: it might become the stop string


def test_what_did_not_become_a_stop_string_is_shown():
    shown, _ = stream(["a<", "ENx", "b"], ["<END>"])
    assert "".join(shown) == "a<ENxb"


def test_a_held_beginning_is_shown_at_the_end():
    shown, _ = stream(["a", "<EN"], ["<END>"])
    assert "".join(shown) == "a<EN"


def test_the_first_of_several_stop_strings_wins():
    shown, fed = stream(["one two three"], ["three", "two"])
    assert "".join(shown) == "one "
    assert fed == 1


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=2),
)
def test_shown_text_is_the_text_before_the_first_stop_string(pieces, stop):
    shown, fed = stream(pieces, stop)
    read = "".join(pieces[:fed])
    ends = [read.find(text) for text in stop if text in read]
    assert "".join(shown) == (read[: min(ends)] if ends else read)
    if fed < len(pieces):
        assert ends and not any(text in "".join(pieces[: fed - 1]) for text in stop)
