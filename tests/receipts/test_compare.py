import itertools
from typing import Any

import pytest

from llm_specdec.receipts import Lane, Side, compare
from tests.support.receipts import specdec


def side(label="a", target="T", prompt="p", machine="m", **changes):
    return Side(label, "model", specdec(**changes), target, prompt, machine)


BASELINE = {
    "lane": Lane("none", "off"),
    "completion_ids": list(range(167)),
    "ttft_ms": 12000.0,
    "wall_ms": 22000.0,
    "phases_ms": {"prefill": 12000.0},
    "rounds": 0,
    "drafted": 0,
    "accepted": 0,
}


def test_the_seeds_mix_up_is_refused_with_both_figures_of_both_runs():
    result = compare(side("a"), side("b", **BASELINE), "end-to-end", "decode")
    assert result["compared"] == []
    assert "A counts prefill and B does not" in result["refused"][0]["reason"]
    assert result["a"]["end_to_end_tps"] == pytest.approx(11.3, abs=0.01)
    assert result["a"]["decode_tps"] == pytest.approx(35.8, abs=0.01)
    assert result["b"]["decode_tps"] == pytest.approx(16.7)
    assert result["b"]["end_to_end_tps"] == pytest.approx(167 / 22, abs=0.001)


def test_the_same_runs_compared_like_with_like_show_the_gain():
    result = compare(side("b", **BASELINE), side("a"))
    gains = {row["figure"]: row["gain_pct"] for row in result["compared"]}
    assert gains["decode"] == pytest.approx(100 * (35.8 / 16.7 - 1), abs=0.1)
    assert gains["end-to-end"] > 0
    assert result["refused"] == []


# what differs → the figures that are compared
DIFFERENT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "prompt": ({"prompt": "q"}, {"decode", "end-to-end"}),
    "prompt length": ({"prompt": "q", "prompt_tokens": 100}, set()),
    "target": ({"target": "U"}, set()),
    "machine": ({"machine": "n"}, set()),
    "nothing": ({}, {"decode", "end-to-end"}),
}


@pytest.mark.parametrize(
    ("cached_a", "cached_b", "what"), itertools.product((0, 2000), (0, 2000), DIFFERENT)
)
def test_every_pair_is_answered_or_refused(cached_a, cached_b, what):
    changes, allowed = DIFFERENT[what]
    a, b = side("a", cached_tokens=cached_a), side("b", cached_tokens=cached_b, **changes)
    expected = allowed - {"decode"} if cached_a or cached_b else allowed
    for first, second in ((a, b), (b, a)):
        result = compare(first, second)
        assert {row["figure"] for row in result["compared"]} == expected
        refused = {row["figure"]: row["reason"] for row in result["refused"]}
        assert set(refused) == {"decode", "end-to-end"} - expected
        assert all(refused.values())
        if allowed and (cached_a or cached_b):
            assert "warm" in refused["decode"]


def test_a_figure_asked_for_is_the_only_one():
    for asked in (("decode", None), (None, "decode"), ("decode", "decode")):
        assert [row["figure"] for row in compare(side(), side(), *asked)["compared"]] == ["decode"]


def test_other_pairings_need_known_targets():
    unknown = side("b", target=None, pairing="other")
    assert "same target" in compare(side("a"), unknown)["refused"][0]["reason"]
    known = side("b", pairing="other")
    assert len(compare(side("a"), known)["compared"]) == 2


def test_one_token_has_no_decode_rate_to_compare():
    result = compare(side("a"), side("b", completion_ids=[1]))
    assert result["refused"] == [
        {"figure": "decode", "reason": "b has no decode rate (too few tokens)"}
    ]


def test_more_than_one_change_is_noted():
    notes = compare(side(), side("b", sampling={"temperature": 1.0}, lane=Lane("none", "off")))
    assert "lane, temperature" in notes["notes"][0]
    assert compare(side(), side("b", sampling={"temperature": 1.0}))["notes"] == []


def test_a_lane_turned_off_is_one_change():
    off = side("b", lane=Lane("none", "off"), sampling={"temperature": 0.0, "draft": False})
    on = side("a", sampling={"temperature": 0.0, "draft": True, "draft_tokens": 4})
    assert compare(off, on)["notes"] == []


def test_cold_against_warm_and_interrupted_runs_are_noted():
    notes = compare(side(), side("b", cached_tokens=5, finish_reason="interrupted"))["notes"]
    assert notes[0] == "b was interrupted"
    assert "one run is cold, one warm" in notes[1]


def test_warm_runs_that_found_unlike_much_in_the_cache_are_noted():
    def notes(cached):
        return compare(side(cached_tokens=40), side("b", cached_tokens=cached))["notes"]

    assert notes(40) == []
    assert "one run found 40 prompt tokens in the cache, one 2000" in notes(2000)[0]
