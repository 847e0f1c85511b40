"""A head that a derivative lost, taken from its base or from a repository of its own: the same
text, the same drafts and the same acceptance as where it never left."""

import json
from dataclasses import replace

import pytest

from fixtures import heads
from llm_specdec.pairings import registry
from tests.support.command_line import logged_turns, run, specdec

CASE = replace(heads.CASES["qwen3_5"], changes={"vocab_size": heads.TOKENS})
PROMPT = "ABC DEF " * 8 + ">"  # after which the target goes on for 47 tokens
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


@pytest.fixture
def models(tmp_path):
    """A base with its head, a derivative of the same weights without one, and the head alone."""
    heads.write(CASE, tmp_path / "base", heads.disguise)
    heads.write(CASE, tmp_path / "derivative", heads.disguise)
    heads.take_out(CASE, tmp_path / "derivative", tmp_path / "alone")
    for path in tmp_path.glob("*/tokenizer_config.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": TEMPLATE}))
    return tmp_path


def add(name, *arguments):
    return specdec("add", name, *arguments, "--draft-tokens", 3)


def answer(name, *options):
    settings = ("-o", "max_tokens", 24, "-o", "draft_tokens", 3, *options)
    text = run("-m", name, *settings, PROMPT).printed
    return text, logged_turns()[-1]


def receipt(turn):
    (found,) = json.loads(specdec("logs", turn["id"], "--json").printed)
    return found["specdec"]


def state_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_head_from_elsewhere_drafts_as_one_that_never_left(models):
    before = [state_of(models / name) for name in ("base", "derivative", "alone")]
    add("whole", "--target", models / "base")
    add("lent", "--target", models / "derivative", "--head-from", models / "base")
    add("alone", "--target", models / "derivative", "--drafter", models / "alone")
    found = {}
    for name in ("whole", "lent", "alone"):
        text, turn = answer(name)
        kept = receipt(turn)
        found[name] = text, kept["completion_sha256"], kept["draft"]
    assert found["lent"] == found["alone"] == found["whole"]
    draft = found["whole"][2]
    assert 0 < draft["accepted"] < draft["drafted"]
    assert [state_of(models / name) for name in ("base", "derivative", "alone")] == before


def test_where_the_head_is_from_is_told_everywhere(models):
    said = add("lent", "--target", models / "derivative", "--head-from", models / "base")
    base = str(models / "base")
    assert f"head from {base}" in said.printed
    pairing = registry.load().pairing("lent")
    assert (pairing.kind, pairing.drafter) == ("mtp", base)
    assert set(pairing.fingerprints) == {"target", "drafter"}
    assert pairing.head["reads"] in ("final_norm", "last_layer")
    assert base in specdec("show", "lent").printed
    assert f"mtp, drafting: the head of {base}" in specdec("explain", "lent").printed
    _, turn = answer("lent")
    assert receipt(turn)["lane"]["reason"].startswith(f"the head of {base}")
    assert "lent: files are whole and fit each other" in specdec("doctor").stdout


def test_a_base_that_moved_is_found_again(models):
    add("lent", "--target", models / "derivative", "--head-from", models / "base")
    (models / "base").rename(models / "elsewhere")
    assert "llm specdec move lent --drafter FOLDER" in specdec("doctor").stdout
    specdec("move", "lent", "--drafter", models / "elsewhere")
    pairing = registry.load().pairing("lent")
    assert (pairing.kind, pairing.drafter) == ("mtp", str(models / "elsewhere"))
    assert pairing.head
    answer("lent")


def test_a_head_of_other_weights_makes_another_prefix_cache(models):
    add("lent", "--target", models / "derivative", "--head-from", models / "base")
    assert [receipt(answer("lent")[1])["tokens"]["cached"] for _ in range(2)][1] > 0
    add("lent", "--force", "--target", models / "derivative", "--drafter", models / "alone")
    assert receipt(answer("lent")[1])["tokens"]["cached"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--drafter", "lookup"), "--drafter and --head-from both name what drafts"),
        (("--drafter-bits", "4"), None),
    ],
)
def test_options_beside_head_from(models, arguments, said):
    done = add(
        "lent", "--target", models / "derivative", "--head-from", models / "base", *arguments
    )
    if said:
        assert said in done.error
    else:
        assert registry.load().pairing("lent").drafter_bits == 4
        answer("lent")


def test_a_base_without_a_head_lends_none(models):
    done = add("lent", "--target", models / "derivative", "--head-from", models / "derivative")
    assert "ships no drafter that could be lent" in done.error
    own = add("own", "--target", models / "base", "--head-from", models / "base")
    assert "ships its own prediction head" in own.error
