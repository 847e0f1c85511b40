import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_specdec.cards import Card, Finding, stored
from llm_specdec.errors import UsageError
from llm_specdec.pairings.registry import Pairing, Profile
from llm_specdec.settings import LAYERS, SETTINGS, resolve

SAID = st.fixed_dictionaries(
    {}, optional={"temperature": st.floats(0, 5), "top_k": st.integers(0, 99)}
)
STACK = st.fixed_dictionaries(dict.fromkeys(LAYERS[1:], SAID))


def as_card(base, own):
    """The stored card of model t on model b, with these values and nothing else."""
    found = [
        Finding(name, value, None, repo, "README.md", 1)
        for repo, values in (("t", own), ("b", base))
        for name, value in values.items()
    ]
    return stored.dump(Card("t", {"t": ["b"], "b": []}, found), taken=True)


@given(STACK)
def test_the_highest_layer_wins_and_the_rest_is_listed_in_order(said):
    pairing = Pairing(
        "q",
        "t",
        settings=said["pairing"],
        profiles={"p": Profile(said["profile"])},
        card=as_card(said["base card"], said["card"]),
    )
    kept = {name: str(value) for name, value in said["stored option"].items()}
    resolved = resolve(pairing, "p", kept, said["-o"]).settings
    for name in ("temperature", "top_k"):
        expected = [(SETTINGS[name].default, "built-in")]
        expected += [(said[layer][name], layer) for layer in LAYERS if name in said.get(layer, {})]
        top = resolved[name]
        found = [(top.value, top.layer), *((v.value, v.layer) for v in top.shadowed)]
        assert found == expected[::-1]


def test_every_setting_has_a_value_without_any_layer():
    resolution = resolve(Pairing("q", "t"))
    assert resolution.values == {name: s.default for name, s in SETTINGS.items()}
    assert {s.layer for s in resolution.settings.values()} == {"built-in"}


def test_a_call_that_leaves_an_option_unset_does_not_shadow():
    pairing = Pairing("q", "t", settings={"temperature": 0.6})
    assert resolve(pairing, options={"temperature": None}).values["temperature"] == 0.6


def test_a_wrong_stored_option_is_refused():
    with pytest.raises(UsageError, match="top_p must be"):
        resolve(Pairing("q", "t"), stored={"top_p": "7"})


def test_stored_options_are_those_of_the_id_asked_for():
    pairing = Pairing("q", "t", profiles={"default": Profile({"top_k": 3})})
    for model_id in ("q", "q/default"):
        found = resolve(pairing, "default", {"top_p": "0.7"}, model_id=model_id)
        assert found.settings["top_p"].source == f"llm models options set {model_id} top_p"
        with pytest.raises(UsageError, match=f"llm models options clear {model_id} top_p$"):
            resolve(pairing, "default", {"top_p": "7"}, model_id=model_id)


def test_a_deviation_counts_only_while_its_value_is_in_effect():
    pairing = Pairing("q", "t", profiles={"p": Profile({"top_p": 0.9}, {"top_p": "mine"})})
    assert resolve(pairing, "p").deviations == [
        {"setting": "top_p", "value": 0.9, "layer": "profile", "reason": "mine"}
    ]
    assert resolve(pairing, "p", options={"top_p": "0.8"}).deviations == []
    assert resolve(pairing).deviations == []


def test_system_is_no_option_as_llm_keeps_the_name_for_itself():
    with pytest.raises(UsageError, match="set it on the pairing or a profile"):
        resolve(Pairing("q", "t"), options={"system": "forbid"})
