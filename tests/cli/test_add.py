import json
import shutil

import pytest

from fixtures import dflash_checkpoints, heads, zoo
from llm_specdec.pairings import registry
from tests.support.checkpoints import quantise, qwen_head, tokenizer_json, trunk, write_model
from tests.support.command_line import specdec


@pytest.fixture
def models(tmp_path):
    write_model(tmp_path / "plain")
    write_model(tmp_path / "small", shapes=trunk(1), num_hidden_layers=1)
    write_model(tmp_path / "head", shapes=trunk() | qwen_head())
    write_model(tmp_path / "foreign", tokenizer=tokenizer_json(words=("x", "y", "xy")))
    (tmp_path / "empty").mkdir()
    return tmp_path


def refused(result, *words, exit_code=1):
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert all(word in result.error for word in words), result.error


def test_a_pairing_is_registered_with_its_lane(models):
    result = specdec(
        "add", "q", "--target", models / "plain", "--drafter", models / "small",
        "--draft-tokens", 3, "--drafter-bits", 4, "--alias", "fast",
    )  # fmt: skip
    assert result.exit_code == 0
    assert "lane model (it fits the target), draft tokens 3" in result.stdout
    pairing = registry.load().pairing("fast")
    assert pairing.target == str(models / "plain")
    assert (pairing.kind, pairing.draft_tokens, pairing.drafter_bits) == ("model", 3, 4)
    assert pairing.enabled
    assert set(pairing.fingerprints) == {"target", "drafter"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"num_hidden_layers": 2, "sliding_window_pattern": 6}, "IndexError"),
        ({"num_attention_heads": 3}, "shape"),
        ({"rms_norm_eps": None}, "TypeError"),
    ],
)
def test_a_drafter_that_no_run_could_use_is_refused_and_a_target_warned_of(tmp_path, changes, why):
    """Gemma 3 with fewer layers than its pattern fails in every pass, others while loading."""
    zoo.write("llama", tmp_path / "target")
    zoo.write("gemma3", tmp_path / "drafter", num_hidden_layers=2)
    arguments = ("--target", tmp_path / "target", "--drafter", tmp_path / "drafter")
    assert specdec("add", "q", *arguments).exit_code == 0
    config = json.loads((tmp_path / "drafter" / "config.json").read_text())
    (tmp_path / "drafter" / "config.json").write_text(json.dumps(config | changes))
    refused(specdec("add", "p", *arguments), "mlx-lm cannot load", why)
    for drafter in ("lookup", tmp_path / "target"):
        target = ("--target", tmp_path / "drafter", "--drafter", drafter)
        added = specdec("add", "p", *target, "--force")
        assert added.exit_code == 0
        assert "warning: every prompt will fail: mlx-lm cannot load" in added.stderr
        assert why in added.stderr


@pytest.mark.parametrize("drafter", ["lookup", "auto", "small"])
def test_a_tokenizer_of_more_ids_than_the_model_has_rows_is_warned_of(models, drafter):
    model = tokenizer_json()
    model["model"]["vocab"]["beyond"] = 100
    for folder in ("plain", "small"):
        (models / folder / "tokenizer.json").write_text(json.dumps(model))
    drafter = models / drafter if drafter == "small" else drafter
    result = specdec("add", "q", "--target", models / "plain", "--drafter", drafter)
    assert result.exit_code == 0
    assert result.stderr.count("id 100 beyond the 100 rows of the embedding") == 1


@pytest.mark.parametrize(("folder", "kind"), [("plain", "lookup"), ("head", "mtp")])
def test_auto_takes_the_targets_head_else_lookup(models, folder, kind):
    assert specdec("add", "q", "--target", models / folder).exit_code == 0
    assert registry.load().pairing("q").kind == kind


def test_auto_names_what_to_download_where_no_drafter_is_here(models, tmp_path):
    target = tmp_path / "Qwen3.6-27B-4bit"
    shutil.copytree(models / "plain", target)
    said = specdec("add", "q", "--target", target).stdout
    command = next(line for line in said.splitlines() if line.startswith("to take one: "))
    assert command.endswith(f"--target {target} --drafter mlx-community/Qwen3.6-27B-MTP-4bit")
    assert "published for it" not in specdec("add", "p", "--target", models / "plain").stdout


def test_auto_takes_the_drafter_registered_for_the_same_target(models):
    specdec("add", "a", "--target", models / "plain", "--drafter", models / "small")
    assert "the drafter of pairing a" in specdec("add", "b", "--target", models / "plain").stdout
    assert registry.load().pairing("b").drafter == str(models / "small")


@pytest.mark.parametrize("gone", ["small", "small/config.json"])
def test_auto_goes_on_without_a_registered_drafter_that_is_gone_or_broken(models, gone):
    specdec("add", "a", "--target", models / "plain", "--drafter", models / "small")
    path = models / gone
    shutil.rmtree(path) if path.is_dir() else path.write_text("{")
    result = specdec("add", "b", "--target", models / "plain")
    assert result.exit_code == 0
    assert "pairing a's: " in result.stdout
    assert registry.load().pairing("b").kind == "lookup"


def test_auto_tries_every_registered_drafter(models):
    write_model(models / "other", shapes=trunk(1), num_hidden_layers=1)
    for name, drafter in (("a", "small"), ("b", "other")):
        specdec("add", name, "--target", models / "plain", "--drafter", models / drafter)
    shutil.rmtree(models / "small")
    assert "the drafter of pairing b" in specdec("add", "c", "--target", models / "plain").stdout


def test_a_relative_path_is_stored_whole(models, monkeypatch):
    monkeypatch.chdir(models)
    assert specdec("add", "q", "--target", "plain", "--drafter", "none").exit_code == 0
    assert registry.load().pairing("q").target == str(models / "plain")


def test_json_says_what_was_registered(models):
    result = specdec("add", "q", "--target", models / "plain", "--json")
    assert json.loads(result.stdout) == registry.load().pairing("q").to_dict()


def test_an_external_drafter_beside_a_head_needs_force_and_starts_disabled(models):
    arguments = ("add", "q", "--target", models / "head", "--drafter", models / "small")
    refused(specdec(*arguments), "ships its own prediction head", "--force")
    assert registry.load().pairings == {}
    assert "disabled" in specdec(*arguments, "--force").stdout
    pairing = registry.load().pairing("q")
    assert not pairing.enabled
    assert "gate" in pairing.disabled_reason


@pytest.mark.parametrize(
    ("target", "drafter", "words"),
    [
        ("missing", "none", "no folder"),
        ("empty", "none", "empty folder"),
        ("plain", "missing", "no folder"),
        ("plain", "empty", "empty folder"),
        ("plain", "foreign", "does not fit"),
        ("plain", "mtp", "no prediction head"),
    ],
)
def test_what_does_not_fit_is_one_line_and_nothing_is_written(models, target, drafter, words):
    if drafter not in ("none", "mtp"):
        drafter = models / drafter
    result = specdec("add", "q", "--target", models / target, "--drafter", drafter)
    refused(result, words)
    assert not registry.default_path().exists()


@pytest.mark.parametrize(
    ("target", "drafter", "words"),
    [
        ("plain", "lookup", "lookup has none"),
        ("packed head", "mtp", "the target's own head is stored in 4 bits already"),
        ("plain", "packed", "stored in 4 bits already"),
    ],
)
def test_bits_for_what_cannot_be_quantised_are_refused(models, target, drafter, words):
    write_model(
        models / "packed",
        shapes=quantise(trunk()),
        quantization={"bits": 4, "group_size": 32},
    )
    write_model(models / "packed head", shapes=trunk() | quantise(qwen_head()))
    drafter = models / drafter if drafter == "packed" else drafter
    result = specdec(
        "add", "q", "--target", models / target, "--drafter", drafter, "--drafter-bits", 4
    )
    refused(result, words, exit_code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("a/b",),
        ("-x",),
        ("a b",),
        ("",),
        ("x" * 65,),
        ("gpt-4o-mini",),
        ("4o-mini",),
        ("q", "--alias", "gpt-4o-mini"),
        ("q", "--alias", "q"),
        ("q", "--alias", "a", "--alias", "a"),
        ("q", "--draft-tokens", "0"),
        ("q", "--draft-tokens", "-3"),
        ("q", "--draft-tokens", "many"),
        ("q", "--drafter-bits", "5"),
        ("q", "--drafter-bits", "4"),
        ("q", "--drafter-group-size", "64"),
    ],
)
def test_odd_names_and_options_are_usage_errors(models, arguments):
    name, *options = arguments
    result = specdec("add", *options, "--target", models / "plain", "--", name)
    assert result.exit_code == 2
    assert not registry.default_path().exists()


def test_a_name_that_is_taken_is_refused_until_forced_and_keeps_its_profiles(models):
    specdec("add", "q", "--target", models / "plain", "--alias", "fast")
    specdec("profile", "set", "q/warm", "temperature=1")
    again = ("add", "q", "--target", models / "head")
    refused(specdec(*again), "already stands for pairing q", exit_code=2)
    assert specdec(*again, "--force").exit_code == 0
    pairing = registry.load().pairing("fast")
    assert pairing.kind == "mtp"
    assert list(pairing.profiles) == ["warm"]
    refused(specdec("add", "fast", "--target", models / "plain", "--force"), exit_code=2)


def test_a_broken_registry_file_is_one_line_and_stays(models):
    path = registry.default_path()
    path.parent.mkdir()
    path.write_text("[pairings")
    refused(specdec("add", "q", "--target", models / "plain"), "specdec.toml", "not TOML")
    assert path.read_text() == "[pairings"


def test_a_head_is_tried_with_both_hidden_states_and_shown(tmp_path):
    folder = tmp_path / "target"
    heads.write(heads.CASES["llama"], folder)
    result = specdec("add", "q", "--target", folder)
    assert result.exit_code == 0
    assert "head reads states after the final norm (accepted: after the final norm " in (
        result.stdout
    )
    head = registry.load().pairing("q").head
    assert head["reads"] == "final_norm"
    assert set(head["acceptance"]) == {"final_norm", "last_layer"}
    shown = json.loads(specdec("show", "q", "--json").stdout)
    assert shown["head"] == head
    assert "head reads          states after the final norm" in specdec("show", "q").stdout


def test_a_head_that_cannot_be_tried_is_added_with_a_warning(models):
    result = specdec("add", "q", "--target", models / "head")
    assert result.exit_code == 0
    assert "the head was not tried with this target: " in result.stderr
    assert registry.load().pairing("q").head == {}


def test_no_calibrate_loads_no_weights(models):
    result = specdec("add", "q", "--target", models / "head", "--no-calibrate")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ()),
        ({"hidden_size": 32}, ("hidden size", "32", "64")),
        ({"target_layer_ids": [0, 7]}, ("layer ids", "7", "1")),
        ({"vocab_size": 5000}, ("vocabulary", "5,000", "96")),
        ({"attention_bias": True}, ("attention_bias",)),
    ],
)
def test_a_dflash_drafter_that_does_not_fit_is_refused_with_the_figures(tmp_path, changes, words):
    zoo.write("llama", tmp_path / "target")
    fitting = {"hidden_size": 64, "vocab_size": 96, "num_target_layers": 2}
    raw = dflash_checkpoints.config(**{**fitting, "target_layer_ids": [0, 1], **changes})
    drafter = dflash_checkpoints.save(tmp_path / "d", raw, dflash_checkpoints.weights(raw))
    result = specdec("add", "q", "--target", tmp_path / "target", "--drafter", drafter)
    if words:
        refused(result, *words)
    else:
        assert registry.load().pairing("q").kind == "dflash"


def test_add_ends_with_what_to_type_next(models):
    said = specdec("add", "q", "--target", models / "plain").stdout.splitlines()
    assert said[-1] == "try it: llm -m q 'hello'" and "" not in said


def test_a_file_is_no_model_and_says_what_is(models):
    (models / "file.txt").write_text("hello")
    done = specdec("add", "q", "--target", models / "file.txt")
    assert done.exit_code == 1
    assert "file.txt is a file: a model is a folder with config.json" in done.error
