import json
from pathlib import Path

import pytest

from fixtures import every_kind
from llm_specdec.drafters.table import KINDS
from tests.support.checkpoints import (
    qwen_head,
    tokenizer_json,
    trunk,
    write_json,
    write_model,
    write_safetensors,
)
from tests.support.command_line import specdec

DRAFTERS = Path(__file__).parents[2] / "fixtures" / "drafters"


def as_json(*arguments):
    done = specdec("inspect", *arguments, "--json")
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_a_plain_target(tmp_path):
    data = as_json(write_model(tmp_path))
    assert data["target"]["caches"] == [{"kind": "full", "window": None}] * 2
    assert data["target"]["quantisation"] is None
    assert data["lane"]["kind"] == "lookup"
    assert data["memory"]["context"] == data["memory"]["largest_context"] == 512
    assert data["problems"] == data["warnings"] == []


def test_ids_ends_and_positions_are_told(tmp_path):
    model = tokenizer_json()
    model["model"]["vocab"] |= {"far": 9, "beyond": 100}
    shapes = trunk() | {"model.wpe.weight": ("F16", (512, 64))}
    write_model(tmp_path, {"eos_token_id": 3}, shapes, model)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 2}')
    data = as_json(tmp_path)
    assert data["target"]["vocabulary"] == {
        "rows": 100, "last_id": 9, "holes": 5, "beyond_rows": 1, "ends": [2, 3]
    }  # fmt: skip
    assert data["target"]["context_is_hard"] is True
    assert data["target"]["tokenizer"]["special_ids"]["eos"] == [2, 3]
    text = " ".join(specdec("inspect", tmp_path).stdout.split())
    assert "context 512 native, and no position beyond" in text
    assert "note 5 ids (first 4) without a token among the others: never drawn" in text
    assert "note end tokens differ, and all of them end an answer: config.json 3" in text
    assert "warning: the tokenizer has id 100 beyond the 100 rows of the embedding" in text


def test_text_fits_a_terminal(tmp_path):
    write_model(tmp_path / "target", shapes=trunk() | qwen_head())
    done = specdec("inspect", tmp_path / "target")
    assert done.exit_code == 0
    assert "head          qwen, 1 layer, 13 tensors" in done.stdout
    assert "lane          mtp: the checkpoint ships a qwen prediction head" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_pair_that_does_not_fit_names_the_figures(tmp_path):
    data = as_json(write_model(tmp_path), DRAFTERS / "dflash2")
    assert data["drafter"]["match"] is False
    assert data["drafter"]["helper"] is True
    assert "hidden size: the drafter reads 576, the target has 64" in data["problems"]
    assert data["draft_cost"] is None


def test_a_pair_that_fits_gives_its_cost_and_joint_memory(tmp_path):
    write_model(tmp_path / "target")
    write_model(tmp_path / "drafter")
    alone = as_json(tmp_path / "target")
    data = as_json(tmp_path / "target", tmp_path / "drafter")
    assert data["drafter"]["match"] is True
    assert data["draft_cost"]["share"] == 1
    assert data["memory"]["needs"][-1]["bytes"] == 2 * alone["memory"]["needs"][-1]["bytes"]
    assert data["warnings"]


def test_context_plans_for_another_length(tmp_path):
    assert as_json(write_model(tmp_path), "--context", "8192")["memory"]["context"] == 8192
    assert (
        "512 native, 8,192 configured" in specdec("inspect", tmp_path, "--context", "8192").stdout
    )
    assert "512 native\n" in specdec("inspect", tmp_path).stdout


@pytest.mark.parametrize("name", [n for n, c in every_kind.CASES.items() if c.kind != "model"])
def test_of_a_drafter_no_more_is_said_than_concerns_it(name, tmp_path):
    """What it is, what it reads and how it is used: nothing of heads, caches and problems."""
    pair = every_kind.write(name, tmp_path)
    done = specdec("inspect", pair.drafter)
    assert done.exit_code == 0 and max(map(len, done.stdout.splitlines())) <= 80
    rows = {line[2:16].strip(): line[16:] for line in done.stdout.splitlines()[1:]}
    assert rows["kind"] == KINDS[pair.kind].files_words
    assert rows["use"].startswith("never alone: llm specdec add NAME --target MODEL --drafter")
    assert ("reads" in rows) != (pair.kind == "mtp") == ("head" in rows)
    assert not {"caches", "context", "KV per token", "lane"} & rows.keys()
    assert "unknown" not in done.stdout and "problem" not in done.stdout
    assert json.loads(specdec("inspect", pair.drafter, "--json").stdout)["problems"]


def test_of_a_drafter_that_nothing_runs_it_says_what_to_take(tmp_path):
    shapes = {"mask_hidden": ("F16", (1, 1, 192)), "fc.weight": ("F16", (64, 192))}
    done = specdec("inspect", write_model(tmp_path, shapes=shapes))
    assert done.exit_code == 0 and "kind          a P-EAGLE drafter" in done.stdout
    assert "use           none, nothing here can run it: take an EAGLE-3 drafter" in done.stdout


def test_the_target_that_a_drafter_names_is_told(tmp_path):
    pair = every_kind.write("eagle3 speculators", tmp_path)
    config = json.loads((pair.drafter / "config.json").read_text())
    config["speculators_config"] = {"verifier": {"name_or_path": "them/model"}}
    write_json(pair.drafter / "config.json", config)
    assert "\n  made for      them/model\n" in specdec("inspect", pair.drafter).stdout
    assert as_json(pair.target, pair.drafter)["drafter"]["made_for"] == "them/model"


@pytest.mark.parametrize("content", [b"", b"{"])
def test_a_broken_folder_is_one_line_and_exit_1(tmp_path, content):
    write_model(tmp_path, tokenizer=tokenizer_json())
    (tmp_path / "config.json").write_bytes(content)
    done = specdec("inspect", tmp_path)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("prefix", ["mtp.", ""])
def test_a_head_in_a_folder_of_its_own_is_a_drafter(tmp_path, prefix):
    write_model(tmp_path / "target")
    write_safetensors(tmp_path / "head" / "model.safetensors", qwen_head(prefix))
    write_json(tmp_path / "head" / "config.json", {"text_config": {"num_hidden_layers": 64}})
    data = as_json(tmp_path / "target", tmp_path / "head")
    assert (data["lane"]["kind"], data["drafter"]["match"]) == ("mtp", True)
    assert data["drafter"]["kind"] == "mtp-sidecar"


def test_a_lost_head_is_noticed_and_the_command_that_brings_it_back_named(tmp_path):
    folder = write_model(tmp_path / "derivative", mtp_num_hidden_layers=1)
    command = f"llm specdec add NAME --target {folder} --head-from "
    assert as_json(folder)["warnings"][-1].endswith(f"{command}BASE")
    (folder / "README.md").write_text("---\nbase_model: them/base\n---\n")
    assert as_json(folder)["warnings"][-1].endswith(f"{command}them/base")
    said = specdec("add", "q", "--target", folder).stderr
    assert f"llm specdec add q --force --target {folder}" in said
    write_model(tmp_path / "plain")
    assert as_json(tmp_path / "plain")["warnings"] == []


def test_whether_a_base_can_lend_its_head_is_told(tmp_path):
    derivative = write_model(tmp_path / "derivative")
    base = write_model(tmp_path / "base", shapes=trunk() | qwen_head())
    found = as_json(derivative, "--head-from", base)
    assert (found["lane"]["kind"], found["drafter"]["match"]) == ("mtp", True)
    other = as_json(derivative, "--head-from", write_model(tmp_path / "other"))
    assert other["drafter"]["differences"] == ["other ships no drafter that could be lent"]


def test_a_name_with_control_characters_cannot_reach_the_terminal(tmp_path):
    write_model(tmp_path, architectures=["\x1b[2JLlama\n"])
    done = specdec("inspect", tmp_path)
    assert "\ufffd[2JLlama⏎" in done.stdout
