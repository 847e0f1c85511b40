"""Imports point downwards: the engine knows nothing of what uses it, and nobody else knows MLX."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import llm_specdec

ROOT = Path(llm_specdec.__file__).parent
# What each may import of the package beside itself; lazily, too.
BELOW = {
    "engine": {"anatomy", "prefix_store", "errors"},
    "anatomy": {"errors"},
    "prefix_store": {"files", "sizes"},
    "files": set(),
    "sizes": set(),
    "errors": set(),
}
MLX = {"mlx", "mlx_lm", "transformers", "tokenizers"}
NOT_THE_ENGINES = {"llm", "click", "sqlite3", "tomllib", "tomlkit", "huggingface_hub"}


def modules(part: str) -> list[Path]:
    return sorted((ROOT / part).rglob("*.py")) or [ROOT / f"{part}.py"]


def imported(path: Path) -> Iterator[str]:
    """Full names of what a module imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    names = (name.split(".") for name in imported(path))
    return {name[1] for name in names if name[0] == "llm_specdec" and len(name) > 1}


def others(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


@pytest.mark.parametrize("part", BELOW)
def test_the_parts_at_the_bottom_import_what_is_below_them(part):
    found = {name for path in modules(part) for name in ours(path)}
    assert found - {part} == BELOW[part]


def test_only_the_engine_imports_mlx():
    inside = set(modules("engine"))
    users = {path for path in ROOT.rglob("*.py") if others(path) & MLX}
    assert users and users <= inside
    assert not {name for path in inside for name in others(path)} & NOT_THE_ENGINES


def test_nobody_imports_the_command_line_but_its_plugin():
    above = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py") if "cli" in ours(path)}
    assert above == {"plugin.py", "cli"}
