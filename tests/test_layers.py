"""Who may import whom. The order is that of the map in the README."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from llm_specdec.checkpoint import TARGET
from llm_specdec.drafters.table import KINDS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "llm_specdec"
MLX = {"mlx", "mlx_lm", "transformers", "tokenizers"}
NOT_THE_ENGINES = {"llm", "click", "sqlite3", "tomllib", "tomlkit", "huggingface_hub"}
TENSORS = r"drafters/\w+/(?!__init__$)"  # whatever lies beside a face, see drafters/__init__.py
FACES = r"\.drafters\.\w+$"
DRAFTERS = ROOT / "fixtures" / "drafters"
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def units():
    """Modules and packages of the package, as the README maps them, the highest first."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"^llm_specdec/\n((?:  .*\n)+)", text, re.MULTILINE)
    assert block
    return re.findall(r"^  (\w+)(?:\.py|/) ", block[1], re.MULTILINE)


@cache
def imports():
    """(importing module, imported name, whether inside a function) of all but those for types."""
    return [
        (path.relative_to(PACKAGE).as_posix().removesuffix(".py"), name, inside)
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, inside in _imports(ast.parse(path.read_text()), False)
    ]


def _imports(node, inside):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from ((f"{child.module}.{alias.name}", inside) for alias in child.names)
        else:
            yield from _imports(child, inside or isinstance(child, FUNCTION))


def within():
    """(importing unit, imported unit, inside a function) across the package's own units."""
    for module, name, inside in imports():
        unit = module.partition("/")[0]
        package, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if package == PACKAGE.name and other not in (unit, "__version__"):
            yield unit, other, inside


def outside():
    for module, name, _ in imports():
        yield module.partition("/")[0], name.partition(".")[0]


def test_the_map_names_every_module():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert sorted(units()) == sorted(there - {"__init__", "__pycache__"})


def test_imports_point_down():
    place = {unit: i for i, unit in enumerate(units())}
    assert [(unit, other) for unit, other, _ in within() if place[unit] > place[other]] == []


@pytest.mark.parametrize("folder", ["llm_specdec", "fixtures", "benchmarks"])
def test_modules_import_in_no_circle(folder):
    """Imports in functions too, but for those by which a drafter's face loads its tensors."""
    files = {_module(path): path for path in (ROOT / folder).rglob("*.py")}
    graph = {
        module: {
            other
            for name, inside in _imports(ast.parse(path.read_text()), False)
            if (other := _nearest(name, files)) not in (None, module)
            and not (inside and re.search(FACES, module))
        }
        for module, path in files.items()
    }
    assert any(graph.values())
    assert len([*TopologicalSorter(graph).static_order()]) == len(files)


def _module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _nearest(name, modules):
    """The module that an imported name is, or is in."""
    return next((n for n in (name, name.rpartition(".")[0]) if n in modules), None)


def test_mlx_is_imported_by_the_engine_and_by_the_tensors_of_drafters():
    found = {module for module, name, _ in imports() if name.partition(".")[0] in MLX}
    assert [module for module in found if not re.match(rf"engine/|{TENSORS}", module)] == []


def test_the_engine_is_imported_only_once_something_runs():
    """`backends/local` is imported inside functions: see test_startup.py."""
    runs = re.compile(rf"engine/|backends/local/|prefix_cache/|{TENSORS}")
    engine = f"{PACKAGE.name}.engine"
    found = {
        module
        for module, name, inside in imports()
        if not inside and f"{name}.".startswith(f"{engine}.")
    }
    assert [module for module in found if not runs.match(module)] == []


def test_the_faces_of_drafters_load_no_engine():
    """Recognising, fitting and pricing a drafter is done without the tensors beside its face."""
    code = f"""
import sys
from pathlib import Path
from llm_specdec.drafters import fit, recognise
read = [recognise.read(Path({str(DRAFTERS)!r}, name)) for name in ("dflash2", "mtp", "model")]
for drafter in read:
    fit.mismatches(read[-1], drafter), fit.draft_cost(read[-1], drafter)
heavy = {sorted(MLX)!r}
print([n for n in sys.modules if n.split(".")[0] in heavy or n.startswith("llm_specdec.engine")])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_no_other_module_names_a_kind_of_drafter():
    """`none`, the absence of one, may be named, and "model" and the role "assistant" wherever no
    kind is meant."""
    names = {
        name
        for kind in KINDS.values()
        for name in (kind.name, kind.files, *(source.name for source in kind.sources))
    } - {"", "none", "model", "assistant", TARGET}
    assert {"mtp", "mtp-sidecar", "lookup-long"} <= names
    quoted = re.compile(rf"""['"]({"|".join(names)})['"]|kind.*['"](model|assistant)['"]""")
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "drafters"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if quoted.search(line)
    ]
    assert found == []


def test_the_engine_knows_nothing_of_llm_of_the_settings_file_and_of_the_log():
    assert {name for unit, name in outside() if unit == "engine"} & NOT_THE_ENGINES == set()


def test_all_text_for_people_is_cleaned():
    """Nothing prints but `console`, and JSON is printed in one place. The sandbox of templates
    is a process that speaks to its parent."""
    said = [
        (path.relative_to(PACKAGE).as_posix(), ast.unparse(node.func))
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    printing = {"print", "click.echo", "click.secho", "click.confirm", "click.prompt"}
    printing |= {"sys.stdout.write", "sys.stderr.write"}
    found = {path for path, name in said if name in printing}
    assert found - {"prompting/sandbox.py"} == {"console/text.py"}
    calls = {path for path, name in said if name == "escaped"}
    assert calls == {"cli/output.py"}
