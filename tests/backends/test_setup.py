from typing import Any

import pytest

from llm_specdec.backends import costs
from llm_specdec.backends.setup import Setup
from llm_specdec.errors import UsageError
from llm_specdec.pairings.registry import Pairing
from llm_specdec.settings import resolve


def setup(**options):
    pairing = Pairing("p", "a/target", settings={"context": 600})
    return Setup(pairing, None, resolve(pairing, None, options=options))


def test_the_context_is_the_setting_and_never_more_than_the_model_was_made_for():
    assert setup().context(8192) == 600
    assert setup(context=8192).context(8192) == 8192
    with pytest.raises(UsageError, match=r"context 8193 \(-o context\) is more than the 8192"):
        setup(context=8193).context(8192)
    with pytest.raises(UsageError, match=r"context 600 \(specdec.toml\)"):
        setup().context(512)


def test_without_a_setting_the_context_is_the_models_own():
    pairing = Pairing("p", "a/target")
    assert Setup(pairing, None, resolve(pairing)).context(512) == 512


@pytest.mark.parametrize(
    ("options", "worth"),
    [
        ({"max_tokens": 20}, False),
        ({"max_tokens": 20, "seed": 0}, True),
        ({"max_tokens": 200}, True),
    ],
)
def test_costs_are_measured_where_it_pays_or_a_seed_is_to_repeat_a_text(
    options, worth, monkeypatch
):
    asked: list[bool] = []
    session: Any = None
    monkeypatch.setattr(
        costs, "costs_for", lambda loaded, kv_bits, tell, anew, measure: asked.append(measure)
    )
    pairing = Pairing("p", "a/target", drafter="lookup", kind="lookup")
    Setup(pairing, None, resolve(pairing, None, options=options)).costs(session)
    assert asked == [worth]
