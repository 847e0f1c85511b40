"""Plans and requests: settled before anything is loaded, and the same in any process."""

import dataclasses
import json
from typing import Any

import pydantic
import pytest

from llm_specdec.backends import Event, Plan, Request, ToolCall, lane_of, plan
from llm_specdec.checkpoint import Positions
from llm_specdec.errors import HubError, UsageError
from llm_specdec.pairings.registry import Pairing
from llm_specdec.settings import resolve
from tests.support import receipts


def planned(pairing=None, **options):
    pairing = pairing or Pairing("p", ".", settings={"context": 600})
    return plan(pairing, None, resolve(pairing, None, options=options))


def test_the_context_is_the_setting_and_never_more_than_the_positions_there_are():
    assert planned().context(Positions(8192)) == 600
    assert planned(context=8193).context(Positions(8192)) == 8193
    table = Positions(512, hard=True)
    assert planned(context=512).context(table) == 512
    with pytest.raises(UsageError, match=r"context 513 \(-o context\) is more than the 512"):
        planned(context=513).context(table)
    with pytest.raises(UsageError, match=r"context 600 \(specdec.toml\)"):
        planned().context(table)


def test_without_a_setting_the_context_is_the_models_own():
    assert planned(Pairing("p", ".")).context(Positions(512)) == 512


@pytest.mark.parametrize(
    ("options", "costs"),
    [
        ({"max_tokens": 20}, "stored"),
        ({"max_tokens": 20, "seed": 0}, "measured"),
        ({"max_tokens": 200}, "afterwards"),
        ({"draft_tokens": 3}, "none"),
        ({"draft": False}, "none"),
    ],
)
def test_costs_are_measured_where_it_pays_or_a_seed_is_to_repeat_a_text(options, costs):
    assert planned(Pairing("p", ".", drafter="lookup", kind="lookup"), **options).costs == costs


def test_a_seed_is_settled_and_0_is_one():
    assert planned(seed=0).seed == 0
    assert planned().seed != planned().seed


def test_the_log_sharpens_a_guess_but_not_under_a_seed_of_the_users_own(tmp_path):
    pairing = Pairing("qwen", ".", drafter="lookup", kind="lookup")
    receipts.log(tmp_path / "logs.db")

    def prior(**options):
        resolution = resolve(pairing, None, options=options)
        return plan(pairing, None, resolution, log=tmp_path / "logs.db").prior

    assert prior()[0] == (45, 50 - 0)
    assert prior(seed=0) == prior(draft=False) == ()


def test_missing_files_are_named_when_planning_and_no_matter_for_the_lane():
    pairing = Pairing("p", "./nowhere", drafter="lookup", kind="lookup")
    with pytest.raises(HubError, match=r"no folder \./nowhere"):
        planned(pairing)
    assert lane_of(pairing, resolve(pairing)).state == "drafting"


def test_plans_name_folders_that_another_process_finds(tmp_path, monkeypatch):
    (tmp_path / "target").mkdir()
    monkeypatch.chdir(tmp_path)
    assert planned(Pairing("p", "./target")).target == str(tmp_path / "target")


FULL = Pairing(
    "p",
    ".",
    ".",
    "model",
    drafter_bits=4,
    settings={"stop": ["x"], "logit_bias": {"3": -1.5}, "top_p": 0.9},
    deviations={"top_p": "ours"},
)
CALL: dict[str, Any] = {"function": {"name": "f", "arguments": {"a": 1}}}


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Plan, dataclasses.replace(planned(FULL, thinking="high"), prior=((1, 2), (0, 3)))),
        (Request, Request([{"role": "user", "content": "hi", "tool_calls": [CALL]}],
                          tools=[CALL], schema={"type": "object"}, earlier_calls=2)),
        (Request, Request(tokens=[1, 2, 3], max_tokens=4, ignore_eos=True)),
        (Event, ToolCall("f", "{}", "abc")),
        (Event, receipts.run(constraint={"kind": "schema", "complete": True})),
    ],
)  # fmt: skip
def test_what_goes_through_the_seam_is_plain_data(form, value):
    """It survives being text, so another process may run it or be told of it."""
    text = json.dumps(dataclasses.asdict(value))
    read = pydantic.TypeAdapter(form).validate_json(text)
    assert type(read) is type(value)
    assert dataclasses.asdict(read) == json.loads(json.dumps(dataclasses.asdict(value))) | {
        key: getattr(value, key) for key in ("deviations", "prior") if isinstance(value, Plan)
    }
