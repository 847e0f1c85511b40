"""README and docs/: all is documented, generated parts are current, links lead somewhere."""

import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from docs import reference
from llm_specdec.drafters.kind import Kind
from llm_specdec.engine.drafter import Drafter
from llm_specdec.pairings import registry
from llm_specdec.settings import SETTINGS
from tests.support import receipts

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
MOST_LINES = 250
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def commands():
    """Its words, `llm specdec bench run`, → a command's context."""
    return {context.command_path: context for context in reference.contexts()}


def page(name):
    return (DOCS / name).read_text("utf-8")


def test_generated_parts_are_current():
    pages = [str(path) for path in sorted(DOCS.glob("*.md"))]
    cog = [sys.executable, "-m", "cogapp", "--check", "-I", ".", *pages]
    done = subprocess.run(cog, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run `make docs`\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", commands())
def test_every_command_is_documented(name):
    assert f"\n## {name}\n" in page("commands.md")


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_with_an_example(name):
    context = commands()[name]
    shown = context.command.get_help(context)
    assert re.search(r"^  Examples?:\n    llm specdec ", shown, re.MULTILINE)


@pytest.mark.parametrize("name", commands())
def test_every_option_has_help(name):
    options = [p for p in commands()[name].command.params if isinstance(p, click.Option)]
    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_documented(name):
    assert f"| `{name}` |" in page("settings.md")


def test_readme_is_one_page():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= MOST_LINES


def test_every_page_is_in_the_index_and_in_the_readme():
    pages = {path.name for path in DOCS.glob("*.md")}
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", page("README.md"))) == pages - {"README.md"}
    readme = (ROOT / "README.md").read_text("utf-8")
    assert set(re.findall(r"\]\(docs/([\w-]+\.md)\)", readme)) == pages


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links = [link for link in LINK.findall(path.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not leads(path, link)] == []


def leads(path, link):
    name, _, anchor = link.partition("#")
    target = (path.parent / name) if name else path
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(path):
    """Of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", path.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_shown_exist_with_their_options(path):
    assert [line for line in shown(path.read_text("utf-8")) if not valid(line)] == []


def shown(text):
    """Every `llm specdec …` of a page, in its text or its fences."""
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    lines = "\n".join(body for language, body in FENCE.findall(text) if language in ("", "bash"))
    for line in [*spans, *lines.replace("\\\n", " ").splitlines()]:
        if found := re.match(r"(?:\$ )?(llm specdec [a-z].*)", line):
            yield found[1]


def valid(line):
    """Whether its command is known, and takes each option that the line gives."""
    words = shlex.split(line.split(" > ")[0].split(" | ")[0], comments=True)
    context, words = commands()["llm specdec"], words[2:]
    while words and isinstance(context.command, click.Group):
        name = f"{context.command_path} {words[0]}"
        if name not in commands():
            name = f"{context.command_path} run"  # bench PAIRING
        if name not in commands():
            return False
        context, words = commands()[name], words[1:]
    known = {*context.help_option_names}
    known |= {name for p in context.command.params for name in (*p.opts, *p.secondary_opts)}
    return {word for word in words if re.match(r"--?[a-z]", word)} <= known


@pytest.mark.parametrize("text", [body for kind, body in FENCE.findall(page("pairings.md"))
                                  if kind == "toml"])  # fmt: skip
def test_registry_files_shown_can_be_read(text, tmp_path, llm_user):
    path = registry.default_path()
    path.parent.mkdir()
    path.write_text(text)
    found = registry.load()
    assert not found.problems
    assert list(found.pairings) == list(tomllib.loads(text)["pairings"])


def test_a_command_that_is_not_is_noticed():
    assert list(shown("`llm specdec add x` and\n```\n$ llm specdec no --x\n```\n")) == [
        "llm specdec add x",
        "llm specdec no --x",
    ]
    assert valid("llm specdec bench qwen --gate 15 --lanes  # all")
    assert not valid("llm specdec no")
    assert not valid("llm specdec add x --no-such-option")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_scripts_and_files_named_exist(path):
    text = path.read_text("utf-8")
    modules = re.findall(r"python -m ((?:benchmarks|fixtures)\.\w+)", text)
    files = re.findall(r"\b(?:llm_specdec|tests|benchmarks|fixtures)/[\w/]+(?:\.\w+)?", text)
    named = [*files, *(module.replace(".", "/") + ".py" for module in modules)]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_make_target_named_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = "\n".join(path.read_text("utf-8") for path in PAGES)
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE))
    assert "demo" in named and named <= targets


def test_every_key_of_a_receipt_is_documented():
    keys = [key for part in keys_of(receipts.specdec()) for key in part]
    assert [key for key in keys if f"`{key}`" not in page("receipts.md")] == []


def keys_of(receipt):
    """Its own keys, and those of its parts whose keys do not depend on the run."""
    yield receipt
    for name in ("lane", "tokens", "draft", "phases_ms", "rates"):
        yield receipt[name]


def test_the_kind_shown_to_contributors_is_one(monkeypatch):
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    face, tensors = (body for language, body in FENCE.findall(text) if language == "python")
    module = ModuleType("llm_specdec.drafters.echo.drafter")
    exec(tensors, module.__dict__)
    monkeypatch.setitem(sys.modules, "llm_specdec.drafters.echo", ModuleType("echo"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    shown: dict[str, Any] = {"__name__": "llm_specdec.drafters.echo"}
    exec(face, shown)
    assert issubclass(type(shown["KIND"]), Kind)
    drafter = shown["KIND"].load(None, None)
    asked = {name for name in {*vars(Drafter), *Drafter.__annotations__} if name[0] != "_"}
    assert {name for name in asked if not hasattr(drafter, name)} == set()
    drafter.start(1)
    drafter.extend([2, 3], {})
    assert drafter.propose(4, draw=None).tokens.tolist() == [3, 3, 3, 3]
