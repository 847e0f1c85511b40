"""The registry file as it lies on disk: read, and edited by commands.

`load` runs whenever llm lists its models: it reads one small file with tomllib. `edit` changes
it under a lock, keeps comments, and replaces it in one step.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_specdec import files
from llm_specdec.errors import RegistryError
from llm_specdec.pairings.registry.pairings import Registry, unknown_pairing
from llm_specdec.pairings.registry.reading import parse

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

LIMIT = 64 << 20  # bytes; a pairing with a long card has some ten thousand


def default_path() -> Path:
    import llm

    return Path(llm.user_dir(), "specdec", "specdec.toml")


def load(path: Path | None = None) -> Registry:
    """Read the registry; a missing file is an empty one.

    A pairing that cannot be used goes to `problems` and leaves the others alone.
    Raises RegistryError, naming file and line, where the file cannot be read at all.
    """
    path = path or default_path()
    try:
        return parse(_read(path), path)
    except FileNotFoundError:
        return Registry(path)


def _read(path: Path) -> str:
    """The text with its own line ends. Raises FileNotFoundError, RegistryError."""
    try:
        return files.read(path, LIMIT).decode("utf-8")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RegistryError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise RegistryError(f"{path} cannot be read: {error}") from error


@contextlib.contextmanager
def edit(path: Path | None = None) -> Iterator["TOMLDocument"]:
    """The file as a tomlkit document, to change in place; written when the block ends well.

    Holds a lock, keeps comments and order, replaces the file in one step, and writes nothing
    when the block raises or when the change would break a pairing that was whole.
    Raises RegistryError when the file is broken, or when another process holds the lock.
    """
    import tomlkit

    path = (path or default_path()).resolve()  # a link to someone's dotfiles stays a link
    with _locked(path):
        old = _read(path) if path.exists() else ""
        broken = parse(old, path).problems
        document = tomlkit.parse(old)
        yield document
        new = tomlkit.dumps(document)
        for name, problem in parse(new, path).problems.items():
            if name not in broken:
                raise RegistryError(f"nothing was written: {problem}")
        if new != old:
            _replace(path, new)


@contextlib.contextmanager
def change(name: str, path: Path | None = None) -> Iterator[Any]:
    """The table of one pairing (name or alias), to change in place; otherwise as `edit`.

    Raises UsageError for an unknown name.
    """
    with edit(path) as document:
        tables = document.get("pairings", {})
        for key, table in tables.items():
            if isinstance(table, dict) and (key == name or name in table.get("aliases", ())):
                yield table
                return
        raise unknown_pairing(name, tables)


def rename(old: str, new: str, path: Path | None = None) -> None:
    """Give the pairing `old` the name `new`; its place in the file stays.

    Raises UsageError for an unknown name.
    """
    with edit(path) as document:
        tables = document.get("pairings", {})
        if old not in tables:
            raise unknown_pairing(old, tables)
        for key in list(tables):  # all of them, as a new key goes to the end
            table = tables[key]
            del tables[key]
            tables[new if key == old else key] = table


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.locked(path))
        except TimeoutError as error:
            raise RegistryError(str(error)) from None
        except OSError as error:
            raise RegistryError(f"{path} cannot be written: {error}") from error
        yield


def _replace(path: Path, text: str) -> None:
    try:
        files.replace(path, text.encode("utf-8"))
    except OSError as error:
        raise RegistryError(f"{path} cannot be written: {error}") from error
