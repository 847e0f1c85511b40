"""An assistant drafts what its place in the text lets it know, over every kind of Gemma 4."""

import json

import pytest

from fixtures import assistant_checkpoints as checkpoints
from fixtures.assistant_checkpoints import POISON, following, rightly
from llm_specdec.drafters.assistant import drafter as assistant
from llm_specdec.drafters.common.language_model import load
from llm_specdec.engine.loop import Run
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.policy import Fixed
from llm_specdec.engine.request import Request
from llm_specdec.engine.rollback import RollbackCache
from tests.support.command_line import run, specdec

DEPTH, LENGTH = 3, 100  # the window is 16 tokens wide
PROMPT = [3, POISON, *range(10, 16), 4]


@pytest.mark.parametrize("name", checkpoints.TARGETS)
def test_drafts_are_right_where_they_can_be_and_only_there(name, tmp_path):
    """Clusters are for the small ones, as published."""
    folder = checkpoints.disguise(tmp_path, name, clusters=name == "E4B")
    target = load(folder / "target")
    drafter = assistant.load(folder / "assistant", target)
    cache = RollbackCache(target.model, max_draft=DEPTH)
    run = Run(target, cache, drafter, Fixed(DEPTH), Request(PROMPT, LENGTH), PhaseTimer())
    whole = [*PROMPT, *(token for part in run.tokens() for token in part)]
    start = len(PROMPT) - 1
    assert whole[start + 1 :] == [following(token) for token in whole[start:-1]]
    at, seen = len(PROMPT) + 1, set()
    for done in run.stats.passes:
        if done.drafted:
            assert done.committed == rightly(whole[:at], done.drafted) + 1
            seen.add(done.committed - 1)
            at += done.committed
    assert seen == {0, 1, 2, 3}


def test_from_inspect_to_a_receipt(tmp_path):
    folder = checkpoints.disguise(tmp_path)
    pair = (folder / "target", folder / "assistant")
    assert json.loads(specdec("inspect", *pair, "--json").printed)["drafter"]["match"]
    added = specdec("add", "g", "--target", pair[0], "--drafter", pair[1]).printed
    assert "lane assistant" in added and "as seen from the last token" in added
    assert run("-m", "g", "-o", "max_tokens", "20", "-o", "draft_tokens", "3", "ab").printed
    (logged,) = json.loads(specdec("logs", "-n", "1", "--json").printed)
    assert logged["specdec"]["lane"]["kind"] == "assistant"
    assert logged["specdec"]["draft"]["accepted"] > 0
