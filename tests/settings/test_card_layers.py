from typing import Any

import pytest
import tomlkit

from llm_specdec.cards import Card, Disagreement, Finding, Forbidden, Range, Required, stored
from llm_specdec.cards.merge import effective
from llm_specdec.errors import RegistryError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing, Profile
from llm_specdec.settings import against_system, resolve

BASE, MINE = "lab/base", "me/derivative"


def found(setting, value, repo=MINE, mode=None, line=1, file="README.md"):
    return Finding(setting, value, mode, repo, file, line, "the text")


def card(*entries, lineage=None):
    """A card of MINE on BASE."""
    made = Card(MINE, lineage or {MINE: [BASE], BASE: []})
    lists: dict[type, list[Any]] = {
        Finding: made.recommended,
        Forbidden: made.forbidden,
        Required: made.required,
    }
    lists |= {Range: made.ranges, Disagreement: made.disagreements}
    for entry in entries:
        lists[type(entry)].append(entry)
    made.effective = effective(made)
    return made


def pairing(made, taken=True, **fields):
    return Pairing("q", MINE, card=stored.dump(made, taken=taken), **fields)


def chain(resolution, setting):
    top = resolution.settings[setting]
    return [(v.value, v.layer) for v in (top, *top.shadowed)]


# The base recommends sampling; the derivative's card rejects it and calls a penalty essential.
TRAP = (
    found("temperature", 1.0, BASE, line=40),
    found("top_p", 0.95, BASE, line=41),
    found("temperature", 0, line=12),
    found("repetition_penalty", 1.15, line=13),
    Forbidden("top_p", MINE, 14),
    Required("repetition_penalty", 1.15, MINE, 13),
)


def test_the_derivatives_card_overrides_the_base_card():
    resolution = resolve(pairing(card(*TRAP)))
    assert chain(resolution, "temperature") == [
        (0.0, "card"), (1.0, "base card"), (0.0, "built-in"),
    ]  # fmt: skip
    assert resolution.settings["temperature"].source == "me/derivative README.md:12"
    assert resolution.values["top_p"] == 1.0
    assert resolution.warnings == []


def test_a_profile_overrides_a_fix_made_on_the_pairing():
    fixed = pairing(
        card(*TRAP),
        settings={"repetition_penalty": 1.15},
        profiles={"reason": Profile({"repetition_penalty": 1.0})},
    )
    resolution = resolve(fixed, "reason")
    assert chain(resolution, "repetition_penalty")[:3] == [
        (1.0, "profile"), (1.15, "pairing"), (1.15, "card"),
    ]  # fmt: skip
    assert "README.md:13 calls 1.15 essential; --deviation WHY" in resolution.warnings[0]


def test_a_rejected_value_warns_until_a_deviation_explains_it():
    recipe = {"top_p": 0.95}
    bare = pairing(card(*TRAP), profiles={"p": Profile(recipe)})
    (warning,) = resolve(bare, "p").warnings
    assert "top_p 0.95 (profile, specdec.toml) goes against the card" in warning
    assert "me/derivative README.md:14 rejects it" in warning
    excused = pairing(card(*TRAP), profiles={"p": Profile(recipe, {"top_p": "measured"})})
    assert resolve(excused, "p").warnings == []
    assert len(resolve(excused, "p", options={"top_p": "0.9"}).warnings) == 1


def test_a_neutral_value_of_a_rejected_setting_is_no_offence():
    assert resolve(pairing(card(*TRAP)), options={"top_p": "1"}).warnings == []


def test_rejected_greedy_decoding_warns_whatever_layer_gives_it():
    rejecting = card(Forbidden("greedy", MINE, 9))
    assert "rejects it" in resolve(pairing(rejecting)).warnings[0]
    assert resolve(pairing(rejecting, settings={"temperature": 0.6})).warnings == []


def test_a_rejection_by_the_base_ends_where_the_derivative_recommends_it():
    made = card(Forbidden("top_p", BASE, 3), found("top_p", 0.9))
    resolution = resolve(pairing(made))
    assert resolution.warnings == []
    assert resolution.rejected == {}
    assert resolution.values["top_p"] == 0.9


def test_values_that_were_not_taken_are_no_layer_but_rejections_count():
    resolution = resolve(pairing(card(*TRAP), taken=False, settings={"top_p": 0.5}))
    assert chain(resolution, "temperature") == [(0.0, "built-in")]
    assert len(resolution.warnings) == 1
    assert resolution.rejected == {"top_p": "me/derivative README.md:14"}


MODES = (
    found("temperature", 0.6, mode="thinking"),
    found("temperature", 0.7, mode="non-thinking"),
    found("top_k", 20),
)


@pytest.mark.parametrize(
    ("thinking", "temperature"), [("on", 0.6), ("off", 0.7), ("low", 0.6), (None, 0.0)]
)
def test_thinking_chooses_the_cards_mode(thinking, temperature):
    resolution = resolve(pairing(card(*MODES)), options={"thinking": thinking})
    assert resolution.values["temperature"] == temperature
    assert resolution.values["top_k"] == 20


def test_thinking_from_the_card_itself_chooses_the_mode():
    resolution = resolve(pairing(card(*MODES, found("thinking", "off"))))
    assert resolution.settings["thinking"].layer == "card"
    assert resolution.values["temperature"] == 0.7


def test_a_setting_on_which_the_card_disagrees_comes_from_no_card():
    made = card(found("top_k", 20), found("top_k", 40, file="generation_config.json", line=None),
                found("top_k", 30, BASE))  # fmt: skip
    assert chain(resolve(pairing(made)), "top_k") == [(0, "built-in")]


def test_values_are_spelt_as_the_setting_spells_them_or_left_out():
    made = card(found("top_k", -1), found("max_tokens", 4096.0), found("top_p", 7))
    resolution = resolve(pairing(made))
    assert chain(resolution, "top_k") == [(0, "card"), (0, "built-in")]
    assert resolution.values["max_tokens"] == 4096
    assert resolution.values["top_p"] == 1.0


def test_a_stored_card_survives_the_file(tmp_path):
    made = card(
        *TRAP,
        *MODES,
        found("min_p", 0.1, file="generation_config.json", line=None),
        Range("min_p", None, 0.2, None, MINE, 7),
        Disagreement("top_k", None, (20, "forbidden")),
    )
    path = tmp_path / "specdec.toml"
    table = {"target": MINE, "card": stored.dump(made, taken=True)}
    path.write_text(tomlkit.dumps({"pairings": {"q": table}}))
    read, taken = stored.load(registry.load(path).pairing("q").card)
    assert taken
    assert read.effective == made.effective
    assert stored.dump(read, taken=True) == table["card"]
    assert "the text" not in path.read_text()


NEEDED = {"setting": "top_k", "value": 3, "repo": MINE, "line": 5}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"recommended": [{"x": 1}]}, "target: field required"),
        ({"target": "t", "ranges": 3}, "ranges: input should be a valid list"),
        ({"target": "t", "recommended": [7]}, "recommended.0: input should be a dictionary"),
        ({"target": "t", "required": [{**NEEDED, "line": "x"}]}, "required.0.line: input should"),
        ({"target": "t", "required": [{**NEEDED, "setting": "topk"}]}, "'topk' is no setting"),
        (
            {
                "target": "t",
                "lineage": {MINE: []},
                "recommended": [{**NEEDED, "file": "README.md"}],
            },
            "lineage: 't' is missing",
        ),
    ],
)
def test_a_card_that_was_spoilt_by_hand_is_one_line_that_names_the_place(broken, why):
    with pytest.raises(RegistryError, match=r"pairings\.q\.card cannot be read") as raised:
        resolve(Pairing("q", "t", card={"taken": True, **broken}))
    assert f"({why}" in str(raised.value)


def test_a_system_prompt_that_the_card_rejects_is_spoken_against_unless_excused():
    made = card(Forbidden("system", MINE, 8))
    assert "README.md:8 rejects it" in (against_system(resolve(pairing(made))) or "")
    excused = pairing(made, settings={"system": "allow"}, deviations={"system": "needed"})
    assert against_system(resolve(excused)) is None
    assert against_system(resolve(pairing(card(*TRAP)))) is None
