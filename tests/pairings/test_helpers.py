import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import click
import llm
import pytest
from llm.cli import cli
from llm.plugins import pm

from llm_specdec.pairings import helpers
from llm_specdec.pairings.registry import Registry
from tests.support.checkpoints import write_json, write_model, write_safetensors
from tests.support.command_line import LLM, run, write_registry

DRAFTER = "z-lab/Tiny-DFlash"


class Other(llm.Model):
    def __init__(self, model_id):
        self.model_id = model_id

    def execute(self, prompt, stream, response, conversation):
        yield f"{self.model_id} speaking"


class OtherPlugin:
    """A second plugin that lists everything it finds, as llm-mlx does."""

    @llm.hookimpl
    def register_models(self, register):
        register(Other("acme/Tiny-Chat"))
        register(Other(DRAFTER), aliases=("td",))


@pytest.fixture
def others(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    llm.get_models()  # load the real plugins first
    plugin = OtherPlugin()
    pm.register(plugin, name="other-plugin")
    yield tmp_path / "hub"
    pm.unregister(name="other-plugin")


@pytest.fixture
def registry(tmp_path):
    def write(more=""):
        target = write_model(tmp_path / "target")
        write_registry(
            f'{more}\n[pairings.pair]\ntarget = "{target}"\n'
            f'drafter = "{DRAFTER}"\nkind = "dflash"\n'
        )

    write()
    return write


@pytest.mark.parametrize("command", [("models",), ("models", "list"), ("models", "-q", "tiny")])
def test_a_registered_drafter_of_another_plugin_is_not_listed(others, registry, command):
    listed = run(*command).printed
    assert "acme/Tiny-Chat" in listed
    assert DRAFTER not in listed


def test_the_json_listing_leaves_it_out_too(others, registry):
    ids = [model["model_id"] for model in json.loads(run("models", "--json").printed)]
    assert "pair" in ids
    assert DRAFTER not in ids


@pytest.mark.parametrize("name", [DRAFTER, "td"])
def test_a_hidden_helper_still_runs_by_name(others, registry, name):
    assert run("-m", name, "hello", "-n").printed.strip() == f"{DRAFTER} speaking"
    assert DRAFTER in run("models", "-m", name).printed


def test_a_search_never_picks_a_helper(others, registry):
    assert run("-q", "tiny", "hello", "-n").printed.strip() == "acme/Tiny-Chat speaking"


def test_hide_helpers_false_shows_them(others, registry):
    registry("hide_helpers = false")
    assert DRAFTER in run("models").printed


def test_a_drafter_that_is_some_pairings_target_is_a_model(others, registry, llm_user):
    with (llm_user / "specdec" / "specdec.toml").open("a") as file:
        file.write(f'[pairings.alone]\ntarget = "{DRAFTER}"\n')
    assert DRAFTER in run("models").printed


def test_an_unregistered_drafter_is_known_by_its_files(others, llm_user):
    assert DRAFTER in run("models").printed
    snapshot = others / "models--z-lab--Tiny-DFlash" / "snapshots" / "abc"
    write_json(snapshot / "config.json", {"dflash_config": {}})
    shapes = {"fc.weight": ("F16", (4, 4)), "hidden_norm.weight": ("F16", (4,))}
    write_safetensors(snapshot / "model.safetensors", shapes)
    assert DRAFTER not in run("models").printed


def test_programs_that_ask_llm_itself_find_every_model(others, registry):
    assert llm.get_model(DRAFTER).model_id == DRAFTER


def test_without_a_command_nothing_is_hidden():
    entries = [SimpleNamespace(model=Other(DRAFTER))]
    helpers.hide(Registry(Path("specdec.toml")), entries)
    assert len(entries) == 1


def test_commands_that_are_watched_exist_in_llm():
    for (parent, name), option in helpers.SEARCHES.items():
        group = cli if parent == "cli" else cli.commands[parent]
        command = group.commands[name]
        assert (group.name, command.name) == (parent, name)
        assert option in [parameter.name for parameter in command.params]
        assert isinstance(command, click.Command)


@pytest.mark.slow
def test_a_plugin_that_is_installed_is_treated_the_same(registry, llm_user, tmp_path):
    """A second plugin with an entry point of its own, as pip would install it."""
    site = tmp_path / "site"
    info = site / "llm_lister-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-lister\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[llm]\nlister = llm_lister\n")
    (site / "llm_lister.py").write_text(
        "import llm\n"
        "class Lister(llm.Model):\n"
        f"    model_id = {DRAFTER!r}\n"
        "    def execute(self, *_, **__):\n"
        "        yield 'speaking'\n"
        "@llm.hookimpl\n"
        "def register_models(register):\n"
        "    register(Lister())\n"
    )
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])

    def shell(*arguments):
        command = [*LLM, *arguments]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "llm-lister" in shell("plugins")
    assert DRAFTER not in shell("models")
    assert shell("-m", DRAFTER, "hello", "-n").strip() == "speaking"
