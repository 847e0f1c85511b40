"""Text while it streams: sections apart, stop strings across tokens, and nothing shown that is
taken back."""

import dataclasses
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_specdec.prompting.sections import HARMONY, Sections, sections_of
from llm_specdec.prompting.text import TextStream


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


def said(pieces):
    assert all(piece.section == "normal" for piece in pieces)
    return "".join(piece.text for piece in pieces)


def stream(pieces, stop):
    """(what was shown token by token, tokens fed until it stopped)."""
    text = TextStream(Pieces(pieces), stop)
    shown, fed = [], 0
    for token in range(len(pieces)):
        fed += 1
        stopped = text.feed(token)
        shown.append(said(text.take()))
        if stopped:
            break
    shown.append(said(text.finish()))
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


# Sections

THINKING = Sections(
    {
        "normal": [("<think>", "reasoning"), ("<call>", "tool")],
        "reasoning": [("</think>", "normal"), ("<call>", "tool")],
        "tool": [("</call>", "normal")],
    }
)


def split(pieces, sections=THINKING, opening="", stop=()):
    """((section, text) with neighbours joined, tokens of thinking)."""
    text = TextStream(Pieces(pieces), stop, sections, opening)
    found = []
    for token in range(len(pieces)):
        stopped = text.feed(token)
        found += text.take()
        if stopped:
            break
    found += text.finish()
    joined: list[list[str]] = []
    for section, part, _ in found:
        if joined and joined[-1][0] == section != "tool":
            joined[-1][1] += part
        else:
            joined.append([section, part])
    return [tuple(one) for one in joined], text.reasoning


@pytest.mark.parametrize(
    ("pieces", "opening", "found", "thought"),
    [
        (["<think>", "a", " b", "</think>", "c"], "", [("reasoning", "a b"), ("normal", "c")], 2),
        (["<th", "ink>", "a", "</think>c"], "", [("reasoning", "a"), ("normal", "c")], 1),
        (["a", "</think>", "c"], "x<think>\n", [("reasoning", "a"), ("normal", "c")], 1),
        (["a"], "<|im_start|>assistant\n", [("normal", "a")], 0),
        ([" a"], "assistant: <", [("normal", " a")], 0),
        (["a"], "<think>\n\n</think>\n\n", [("normal", "a")], 0),
        (["<think>", "\n\n", "</think>", "\n\n", "c"], "", [("normal", "c")], 1),
        (["a \n", "<call>", "x", "y", "</call>", "\n", "<call>z</call>"], "",
         [("normal", "a"), ("tool", "xy"), ("tool", "z")], 0),
        (["<think>", "a", "<call>", "x", "</call>"], "", [("reasoning", "a"), ("tool", "x")], 1),
        (["<call>", "x"], "", [("tool", "x")], 0),
        (["a", " \n"], "", [("normal", "a \n")], 0),
        ([" a <thin"], "", [("normal", " a <thin")], 0),
        (["<think>", "a "], "", [("reasoning", "a")], 1),
        (["<think>", "a", "\ufffd</think>", "c"], "", [("reasoning", "a"), ("normal", "c")], 1),
    ],
)  # fmt: skip
def test_sections_are_told_apart(pieces, opening, found, thought):
    assert split(pieces, opening=opening) == (found, thought)


def test_a_marker_of_one_token_is_not_spelled():
    whole = dataclasses.replace(THINKING, whole=True)
    said = ["<think>", "is <", "/think>", "it", "</think>", "a <", "think", ">", " b", "<call>x"]
    found = [("reasoning", "is </think>it"), ("normal", "a <think> b"), ("tool", "x")]
    assert split(said, whole) == (found, 3)
    assert split(said[:3], whole, stop=["is"]) == ([("reasoning", "is </think>")], 2)


def test_a_stop_string_does_not_reach_across_a_marker():
    found, _ = split(["<think>", "END", "</think>", "a E", "<call>x</call>", "ND"], stop=["END"])
    assert found == [("reasoning", "END"), ("normal", "a E"), ("tool", "x"), ("normal", "ND")]


def test_nothing_follows_a_stop_string():
    found, _ = split(["<think>a</think>", "b END<call>x</call> c"], stop=["END"])
    assert found == [("reasoning", "a"), ("normal", "b ")]


def test_harmony_channels():
    said = ["<|channel|>", "analysis", "<|message|>", "Hm", ".", "<|end|>", "<|start|>assistant"]
    said += ["<|channel|>", "final", "<|message|>", "Yes", "."]
    sections = Sections(HARMONY, "header")
    opening = "<|start|>assistant"
    assert split(said, sections, opening) == ([("reasoning", "Hm."), ("normal", "Yes.")], 2)


def harmony_tokenizer():
    vocab = {"<|channel|>": 1, "<|message|>": 2, "<|call|>": 3}
    names = {number: text for text, number in vocab.items()}
    return SimpleNamespace(
        encode=lambda text, **_: [vocab.get(text, 0)], decode=lambda ids: names[ids[0]]
    )


def test_a_harmony_call_is_read():
    sections = sections_of(harmony_tokenizer(), tools=True)
    said = ["<|channel|>commentary to=functions.", "add", "<|channel|>x <|constrain|>json"]
    said += ["<|message|>", '{"a": 1}']
    found, _ = split(said, sections, "<|start|>assistant")
    assert [section for section, _ in found] == ["tool"]
    assert sections.parse is not None
    assert sections.parse(found[0][1], []) == {"name": "add", "arguments": {"a": 1}}


def test_a_harmony_call_without_tools_on_offer_is_text():
    said = ["<|channel|>commentary to=functions.add", "<|message|>", '{"a": 1}']
    sections = sections_of(harmony_tokenizer(), tools=False)
    assert split(said, sections)[0] == [("normal", '{"a": 1}')]
