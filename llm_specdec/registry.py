"""The registry file: pairings and profiles, in TOML that people edit by hand.

`load` runs whenever llm lists its models: it reads one small file with tomllib. `edit` is for
commands: it changes the file under a lock, keeps comments, and replaces it in one step.
"""

import contextlib
import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_specdec import files, settings
from llm_specdec.errors import RegistryError, UsageError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

BUILT_IN = ("none", "lookup", "mtp")  # drafters that are words, not repositories
KINDS = ("model", "dflash")  # what a drafter of its own files may be
DEFAULT_PROFILE = "default"  # a profile of this name is what the bare NAME uses
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
VETOED, BROKEN = "vetoed by bench", "broken by bench"  # how a gate's disabled_reason begins


@dataclass(frozen=True)
class Profile:
    """A sampling recipe; `deviations` are reasons, by setting, to go against the card."""

    settings: dict[str, Any]
    deviations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pairing:
    """A target and its drafter, and what is set for them."""

    name: str
    target: str
    drafter: str = "none"
    kind: str = "none"
    drafter_bits: int | None = None
    drafter_group_size: int | None = None
    aliases: list[str] = field(default_factory=list)
    enabled: bool = True
    disabled_reason: str = ""
    added: str = ""
    fingerprints: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    deviations: dict[str, str] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)  # reads, acceptance by what it may read
    text: str = field(default="", repr=False, compare=False)

    @property
    def draft_tokens(self) -> int | str:
        tokens: int | str = self.settings.get("draft_tokens", "auto")
        return tokens

    def where(self, *key: str) -> str:
        """The place in the registry file of a key of this pairing, such as settings, top_p."""
        line = _line_of(self.text, ("pairings", self.name, *key))
        return f"specdec.toml:{line}" if line else "specdec.toml"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the effective draft_tokens beside the drafter."""
        data = asdict(self)
        del data["text"]
        names = list(data)
        after = names.index("kind") + 1
        data["draft_tokens"] = self.draft_tokens
        return {name: data[name] for name in [*names[:after], "draft_tokens", *names[after:]]}


@dataclass(frozen=True)
class Registry:
    """What the file says; `problems` holds one line for each pairing that cannot be used.
    cache: the limits in bytes that [cache] sets, of `limit` (disk) and `hot` (memory)."""

    path: Path
    pairings: dict[str, Pairing] = field(default_factory=dict)
    hide_helpers: bool = True
    problems: dict[str, str] = field(default_factory=dict)
    cache: dict[str, int] = field(default_factory=dict)

    def ids(self) -> dict[str, tuple[Pairing, str | None]]:
        """Every llm model id → its pairing and profile (None: no profile)."""
        found: dict[str, tuple[Pairing, str | None]] = {}
        for pairing in self.pairings.values():
            default = DEFAULT_PROFILE if DEFAULT_PROFILE in pairing.profiles else None
            found[pairing.name] = (pairing, default)
            for profile in pairing.profiles:
                found[f"{pairing.name}/{profile}"] = (pairing, profile)
        return found

    def pairing(self, name: str) -> Pairing:
        """Raises UsageError for an unknown name, RegistryError for one that is broken."""
        return self.find(name, profiles=False)[0]

    def find(self, model_id: str, *, profiles: bool = True) -> tuple[Pairing, str | None]:
        """The pairing and profile behind a model id or alias."""
        ids = self.ids()
        if model_id in ids and (profiles or "/" not in model_id):
            return ids[model_id]
        for pairing in self.pairings.values():
            if model_id in pairing.aliases:
                return ids[pairing.name]
        name = model_id.partition("/")[0]
        if name in self.problems:
            raise RegistryError(self.problems[name])
        if name in self.pairings and profiles:
            raise UsageError(
                f"pairing {name} has no profile {model_id.partition('/')[2]!r}: "
                f"it has {', '.join(self.pairings[name].profiles) or 'none'}"
            )
        raise unknown_pairing(model_id, self.pairings)


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
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(f"{path} cannot be read: {error}") from error


def parse(text: str, path: Path) -> Registry:
    """The registry that `text` describes. Raises RegistryError, naming file, line and key."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RegistryError(f"{path} is not TOML: {error}; mend it by hand") from error
    try:
        top = _fields(_TOP, document, ())
        cache = _fields(_CACHE, top.get("cache", {}), ("cache",))
        tables = top.get("pairings", {})
    except _Wrong as wrong:
        raise RegistryError(wrong.shown(path, text)) from None
    pairings: dict[str, Pairing] = {}
    problems: dict[str, str] = {}
    for name, table in tables.items():
        try:
            pairings[name] = _pairing(name, table, text, _names(pairings))
        except _Wrong as wrong:
            problems[name] = wrong.shown(path, text)
    return Registry(path, pairings, top.get("hide_helpers", True), problems, cache)


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


def unknown_pairing(name: str, known: Iterable[str]) -> UsageError:
    names = ", ".join(known) or "none yet; llm specdec add makes one"
    return UsageError(f"no pairing {name!r}: there are {names}")


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


# --- reading -------------------------------------------------------------------------------


class _Wrong(Exception):
    """A key that is not what it should be."""

    def __init__(self, key: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.key = key

    def shown(self, path: Path, text: str) -> str:
        line = _line_of(text, self.key)
        place = f"{path}:{line}" if line else str(path)
        return f"{place}: {'.'.join(self.key)}: {self}"


class _Table(settings.Object):
    """A table of names to tables; what is inside is read by others."""

    form = "a table"

    def check(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        return value


class _Words(settings.Texts):
    form = "a list of texts"

    def check(self, value: object) -> list[str]:
        if isinstance(value, str):
            raise ValueError
        return super().check(value)


class _Reasons(_Table):
    form = "a table of texts"

    def check(self, value: object) -> dict[str, str]:
        table = super().check(value)
        if not all(isinstance(text, str) for text in table.values()):
            raise ValueError
        return table


class _Head(_Table):
    """What calibration found: which hidden states the target's own head reads."""

    form = 'a table with reads = "final_norm" or "last_layer"'

    def check(self, value: object) -> dict[str, Any]:
        table = super().check(value)
        if table.get("reads") not in ("final_norm", "last_layer"):
            raise ValueError
        return table


_TOP: dict[str, settings.Form] = {
    "hide_helpers": settings.Flag(),
    "cache": _Table(),
    "pairings": _Table(),
}
_CACHE: dict[str, settings.Form] = {"limit": settings.Size(), "hot": settings.Size()}
_PAIRING: dict[str, settings.Form] = {
    "target": settings.Text(),
    "drafter": settings.Text(),
    "kind": settings.Choice("none", "lookup", "mtp", "model", "dflash"),
    "drafter_bits": settings.Choice(4, 8),
    "drafter_group_size": settings.Choice(32, 64, 128),
    "aliases": _Words(),
    "enabled": settings.Flag(),
    "disabled_reason": settings.Text("a text", "(?s).*"),
    "added": settings.Text(),
    "fingerprints": _Reasons(),
    "settings": _Table(),
    "deviations": _Reasons(),
    "profiles": _Table(),
    "card": _Table(),
    "head": _Head(),
}


def _fields(
    known: Mapping[str, settings.Form], table: dict[str, Any], above: tuple[str, ...]
) -> dict[str, Any]:
    fields = {}
    for key, value in table.items():
        if key not in known:
            raise _Wrong((*above, key), f"unknown key; known are {', '.join(known)}")
        try:
            fields[key] = known[key].check(value)
        except (ValueError, TypeError):
            raise _Wrong((*above, key), f"must be {known[key].form}, not {value!r}") from None
    return fields


def _pairing(name: str, table: object, text: str, taken: dict[str, str]) -> Pairing:
    above = ("pairings", name)
    if not isinstance(table, dict):
        raise _Wrong(above, "must be a table")
    _check_name(name, above)
    fields = _fields(_PAIRING, table, above)
    if "target" not in fields:
        raise _Wrong(above, "target is missing")
    _check_drafter(fields, above)
    for claimed in (name, *fields.get("aliases", ())):
        _check_name(claimed, above)
        if claimed in taken:
            raise _Wrong(above, f"{claimed!r} already stands for pairing {taken[claimed]}")
    fields["settings"] = _settings(fields.get("settings", {}), (*above, "settings"))
    fields["profiles"] = {
        key: _profile(value, (*above, "profiles", key))
        for key, value in fields.get("profiles", {}).items()
    }
    return Pairing(name=name, text=text, **fields)


def _check_name(name: str, key: tuple[str, ...]) -> None:
    if not re.fullmatch(NAME, name):
        raise _Wrong(key, f"{name!r} is no name: {NAMES_ARE}")


NAMES_ARE = "letters, digits, '.', '_' and '-', a letter or digit first, at most 64"


def _check_drafter(fields: dict[str, Any], above: tuple[str, ...]) -> None:
    """`kind` says what a drafter is; for the built-in ones it may be left out."""
    drafter = fields.get("drafter", "none")
    kind = fields.setdefault("kind", drafter if drafter in BUILT_IN else "")
    if drafter in BUILT_IN and kind != drafter:
        raise _Wrong((*above, "kind"), f"must be {drafter}, as drafter is")
    if drafter not in BUILT_IN and kind not in KINDS:
        raise _Wrong((*above, "kind"), f"must be model or dflash for drafter {drafter!r}")


def _profile(table: object, above: tuple[str, ...]) -> Profile:
    if not isinstance(table, dict):
        raise _Wrong(above, "must be a table")
    _check_name(above[-1], above)
    reasons = table.get("deviations", {})
    deviations = _fields({"deviations": _Reasons()}, {"deviations": reasons}, above)["deviations"]
    said = {key: value for key, value in table.items() if key != "deviations"}
    return Profile(_settings(said, above), deviations)


def _settings(table: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
    checked = {}
    for name, value in table.items():
        try:
            checked[name] = settings.check(name, value)
        except UsageError as error:
            raise _Wrong((*above, name), str(error)) from None
    return checked


def _names(pairings: Mapping[str, Pairing]) -> dict[str, str]:
    """Every name and alias in use → the pairing it stands for."""
    return {name: p.name for p in pairings.values() for name in (p.name, *p.aliases)}


# --- lines ---------------------------------------------------------------------------------


def _line_of(text: str, key: tuple[str, ...]) -> int | None:
    """The line where `key` stands, else that of the nearest table above it."""
    lines = _lines(text)
    for length in range(len(key), 0, -1):
        if key[:length] in lines:
            return lines[key[:length]]
    return None


@functools.lru_cache(maxsize=2)
def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Every key and table header → its line. Reads a line at a time, so that a key inside an
    inline table has the line of that table."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    quoted = False  # inside a text of several lines
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        inside = quoted
        if (line.count('"""') + line.count("'''")) % 2:
            quoted = not quoted
        if inside:
            continue
        if re.match(r"\s*\[", line):
            key = table = _key(line) or table
        elif match := re.match(r"\s*([^#=]+?)\s*=", line):
            key = (*table, *_key(f"{match[1]} = 0"))
        else:
            continue
        for length in range(1, len(key) + 1):
            lines.setdefault(key[:length], number)
    return lines


def _key(line: str) -> tuple[str, ...]:
    """The dotted key of a header or a key line, as TOML quotes it."""
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    key = []
    while found and isinstance(found, dict | list):
        if isinstance(found, dict):
            key.append(next(iter(found)))
            found = found[key[-1]]
        else:
            found = found[0]
    return tuple(key)
