"""Markers found as by mlx-lm's state machine, and no text held back longer than it must be."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mlx_lm.generate import TextStateMachine

from llm_specdec.prompting.markers import MarkerScanner, begun
from llm_specdec.prompting.sections import HARMONY

NAMES = ("a", "b", "c")
TEXT = st.text("xy<>", min_size=1, max_size=4)
EDGES = st.fixed_dictionaries(
    {name: st.lists(st.tuples(TEXT, st.sampled_from(NAMES)), max_size=4) for name in NAMES}
)


def joined(sections, parts):
    """Sections with the text so far; the first part goes on with the last section."""
    sections[-1] += parts[0][1]
    sections += [text for _, text in parts[1:]]
    return [name for name, _ in parts]


@settings(max_examples=500)
@given(EDGES, st.lists(TEXT, max_size=12))
@example({"a": [("<xy>", "b"), ("xy", "c")], "b": [], "c": []}, ["<x", "y>"])
def test_sections_are_those_of_mlx_lm(edges, parts):
    scanner, machine = MarkerScanner(edges, "a"), TextStateMachine(edges)
    state, ours, theirs = machine.make_state("a"), [""], [""]
    for part in parts:
        state, segments = machine.split(state, part)
        assert joined(ours, scanner.feed(part)) == joined(theirs, segments)
        assert scanner.section == state[0]
        assert ours[:-1] == theirs[:-1]
        assert ours[-1].startswith(theirs[-1])  # mlx-lm may hold back what is no marker any more
    _, rest, _ = machine.flush(state)
    assert ours[-1] + scanner.flush() == theirs[-1] + rest


def test_an_overlapping_marker_that_ends_together_is_the_longer_one():
    scanner = MarkerScanner(HARMONY, "header")
    assert scanner.feed("x analysis<|mess") == [("header", "x ")]
    assert scanner.feed("age|>Hm") == [("header", ""), ("reasoning", "Hm")]


def test_a_section_that_has_no_markers_holds_nothing_back():
    scanner = MarkerScanner({"a": [("<", "z")]}, "a")
    assert scanner.feed("x<y<") == [("a", "x"), ("z", "y<")]


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("x", 0), ("x<", 1), ("<<e", 2), ("<end", 4)]
)
def test_the_longest_beginning_counts(text, length):
    assert begun(["<end>", "<e"], text) == length
