import json

import llm
import pytest

from llm_specdec.bench.store import Store
from llm_specdec.cli import move
from llm_specdec.pairings import registry
from tests.support.checkpoints import qwen_head, tokenizer_json, trunk, write_model
from tests.support.command_line import run, specdec
from tests.support.scripted_bench import plan


@pytest.fixture
def models(tmp_path):
    write_model(tmp_path / "plain")
    write_model(tmp_path / "small", shapes=trunk(1), num_hidden_layers=1)
    specdec("add", "q", "--target", tmp_path / "plain", "--drafter", tmp_path / "small")
    specdec("set", "q", "temperature=0.5")
    specdec("profile", "set", "q/reason", "top_p=0.9")
    return tmp_path


def kept():
    """What must survive whatever else changes."""
    pairing = next(iter(registry.load().pairings.values()))
    return pairing.settings, pairing.profiles, pairing.drafter, pairing.kind


def test_a_moved_target_keeps_settings_and_profiles(models):
    before = kept()
    (models / "plain").rename(models / "elsewhere")
    done = specdec("move", "q", "--target", models / "elsewhere")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"q: target is now {models}/elsewhere; the same files as before\n"
    assert registry.load().pairing("q").target == str(models / "elsewhere")
    assert kept() == before
    assert "files are whole" in specdec("doctor").stdout


def test_doctor_proposes_move_for_either_folder_and_never_remove(models):
    (models / "plain").rename(models / "elsewhere")
    (models / "small").rename(models / "little")
    fixes = [f["fix"] for f in json.loads(specdec("doctor", "--json").stdout)["findings"]]
    assert "llm specdec move q --target FOLDER" in fixes
    assert "llm specdec move q --drafter FOLDER" in fixes
    assert not any("remove" in fix for fix in fixes)
    specdec("move", "q", "--target", models / "elsewhere", "--drafter", models / "little")
    assert "files are whole" in specdec("doctor").stdout


def test_other_files_are_refused_without_yes_and_named(models):
    write_model(models / "other", shapes=trunk(3), num_hidden_layers=3)
    before = registry.default_path().read_text()
    done = specdec("move", "q", "--target", models / "other")
    assert done.exit_code == 1
    assert "the target is not the one that was added: layers was 2, is 3" in done.error
    assert registry.default_path().read_text() == before
    done = specdec("move", "q", "--target", models / "other", "--yes", "--json")
    assert json.loads(done.stdout) == {
        "name": "q",
        "target": str(models / "other"),
        "drafter": str(models / "small"),
        "differences": ["the target is not the one that was added: layers was 2, is 3"],
    }
    assert registry.load().pairing("q").target == str(models / "other")


def test_a_person_is_asked_whether_other_files_are_meant(models, monkeypatch):
    monkeypatch.setattr(move, "on_terminal", lambda: True)
    write_model(models / "other", shapes=trunk(3), num_hidden_layers=3)
    refused = run("specdec", "move", "q", "--target", models / "other", stdin="n\n")
    assert refused.exit_code == 1
    assert registry.load().pairing("q").target == str(models / "plain")
    run("specdec", "move", "q", "--target", models / "other", stdin="y\n")
    assert registry.load().pairing("q").target == str(models / "other")


def test_what_does_not_fit_is_no_move(models):
    write_model(models / "foreign", tokenizer=tokenizer_json(words=("x", "y", "xy")))
    before = registry.default_path().read_text()
    for arguments, words in (
        (("--target", models / "foreign"), "tokenizer"),
        (("--target", models / "nowhere"), "no folder"),
        (("--drafter", "lookup"), "of kind lookup"),
        ((), "--target, --drafter or both"),
    ):
        done = specdec("move", "q", *arguments)
        assert done.exit_code in (1, 2)
        assert words in done.error
    assert registry.default_path().read_text() == before


def test_a_head_that_was_calibrated_on_other_weights_is_forgotten(tmp_path):
    write_model(tmp_path / "head", shapes=trunk() | qwen_head())
    specdec("add", "h", "--target", tmp_path / "head", "--no-calibrate")
    with registry.change("h") as table:
        table["head"] = {"reads": "last_layer"}
    (tmp_path / "head").rename(tmp_path / "moved")
    specdec("move", "h", "--target", tmp_path / "moved")
    assert registry.load().pairing("h").head == {"reads": "last_layer"}
    write_model(tmp_path / "other", shapes=trunk(3) | qwen_head(), num_hidden_layers=3)
    specdec("move", "h", "--target", tmp_path / "other", "--yes")
    assert registry.load().pairing("h").head == {}


TEXT = """\
# by hand
[pairings.a]
target = "/a"

# the fast one
[pairings.q]   # mine
target = "/q"
aliases = ["fast"]

[pairings.q.settings]
temperature = 0.6   # warm

[pairings.q.profiles.reason]
top_p = 0.9

[pairings.z]
target = "/z"
"""


@pytest.fixture
def written(llm_user):
    path = registry.default_path()
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def test_rename_keeps_place_comments_profiles_and_aliases(written):
    done = specdec("rename", "q", "quick")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "q is now quick: llm -m quick\n")
    lines = [line for line in written.read_text().splitlines() if line]
    assert lines == [
        line.replace("pairings.q", "pairings.quick") for line in TEXT.splitlines() if line
    ]
    assert list(registry.load().ids()) == ["a", "quick", "quick/reason", "z"]


def test_rename_takes_along_what_llm_has_of_it_and_names_the_rest(written, llm_user):
    llm.set_default_model("q/reason")
    llm.set_alias("x", "q")
    options = {"q": {"top_k": "4"}, "a": {"top_k": "5"}}
    (llm_user / "model_options.json").write_text(json.dumps(options))
    (llm_user / "templates").mkdir()
    (llm_user / "templates" / "review.yaml").write_text("model: q/reason\nprompt: hi\n")
    (llm_user / "templates" / "other.yaml").write_text("model: a\nprompt: hi\n")
    said = specdec("rename", "q", "quick").stderr.splitlines()
    assert said[1:] == [
        "llm's default model is now quick/reason",
        "llm's stored options of q are now those of quick",
        "llm's alias x stands for q: llm aliases set x NAME",
        "llm's template review asks q/reason: llm templates edit review",
    ]
    assert llm.get_default_model() == "quick/reason"
    assert json.loads((llm_user / "model_options.json").read_text()) == {
        "a": {"top_k": "5"},
        "quick": {"top_k": "4"},
    }


def test_rename_takes_benches_and_prefix_cache_along(written):
    asked = plan().asked
    Store().begin(asked, {})
    specdec("rename", "q", "qwen")  # the bench is of qwen, this one is not
    Store().begin(asked.__class__(**{**vars(asked), "pairing": "a"}), {})
    entry = written.parent / "cache" / "a" / ("b" * 32) / "1t-0000.safetensors"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"x")
    specdec("rename", "a", "b")
    assert [row["pairing"] for row in Store().benches()] == ["qwen", "b"]
    assert (written.parent / "cache" / "b" / ("b" * 32) / entry.name).exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nobody", "x", "no pairing 'nobody'"),
        ("q", "a", "already stands for pairing a"),
        ("q", "fast", "already stands for pairing q"),
        ("q", "a b", "is no name"),
        ("fast", "x", "fast is an alias of q"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_changes_nothing(written, old, new, words):
    done = specdec("rename", old, new)
    assert done.exit_code == 2
    assert words in done.error
    assert written.read_text() == TEXT
