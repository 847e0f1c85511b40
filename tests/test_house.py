"""Where tests lie, and what they may import (see this folder's docstring)."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
REPOSITORY = {"docs", "fixtures", "house", "layers", "startup", "zoo"}
CARDS = {"cases", "hostile", "lines", "sentences"}  # the whole reader, by kinds of text


@cache
def imported(path):
    """Modules that a file imports, and each name that it takes from one as if a module too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def files(folder):
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found
    return found


def modules(room):
    """Modules and folders of a room, as tests name them."""
    names = {path.stem for path in (ROOT / "llm_specdec" / room).iterdir()}
    names |= REPOSITORY if room == Path() else set()
    return names | CARDS if room == Path("cards") else names


@pytest.mark.parametrize(
    "path", [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))], ids=str
)
def test_a_test_file_is_named_after_its_module(path):
    if path.parent != Path("integration"):
        name = path.stem.removeprefix("test_")
        assert [m for m in modules(path.parent) if name == m or name.startswith(f"{m}_")]


def test_no_test_module_is_imported():
    assert [
        (path.relative_to(ROOT).as_posix(), name)
        for path in files("tests")
        for name in sorted(imported(path))
        if name.startswith("tests.") and ".test_" in name
    ] == []


@pytest.mark.parametrize("folder", ["llm_specdec", "fixtures", "benchmarks"])
def test_what_is_no_test_imports_none(folder):
    importing = {path for path in files(folder) for name in imported(path) if "tests" in name}
    assert importing == set()


def test_commands_are_run_by_one_helper():
    """But for a group of commands that is not llm's."""
    running = {
        path.relative_to(TESTS).as_posix()
        for path in files("tests")
        if "click.testing" in imported(path)
    }
    assert running == {"support/command_line.py", "console/test_text.py"}
