"""`llm specdec cache status, clear, limit`: the prefix cache on disk and in memory."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from llm_specdec import memory
from llm_specdec.cli.logs import database_option, log_path
from llm_specdec.cli.output import (
    confirm,
    counted,
    done,
    json_option,
    on_terminal,
    print_json,
    table,
    yes_option,
)
from llm_specdec.console.sizes import gigabytes
from llm_specdec.console.text import echo
from llm_specdec.errors import ResourceError, UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Registry
from llm_specdec.prefix_cache import limits
from llm_specdec.prefix_cache.folder import Cap, Contents, Folder
from llm_specdec.receipts import Warm, warm_starts
from llm_specdec.settings import SIZE

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


@click.group(name="cache", short_help="Show, empty or limit the prefix cache")
def cache_command() -> None:
    """The prefix cache: a prompt that begins as an earlier one did is not read again.

    \b
    Examples:
      llm specdec cache status
      llm specdec cache limit 40GB --hot 16GB
      llm specdec cache clear qwen
    """


@cache_command.command(name="status", short_help="Show what it holds, may hold, and saved")
@database_option
@json_option
def status_command(database: Any, as_json: bool) -> None:
    """Show what the cache holds, may hold, and has saved, by pairing.

    The time to first token (TTFT) saved is worked out from llm's log: the cached tokens,
    at the rate at which the pairing's cold runs read their prompts, less the time to
    restore them.

    \b
    Examples:
      llm specdec cache status
      llm specdec cache status --json
    """
    known = registry.load()
    status = _status(known, warm_starts(log_path(database)))
    if as_json:
        print_json(status)
    else:
        echo("\n".join(_shown(status)))


@cache_command.command(name="clear", short_help="Remove entries on disk")
@click.argument("name", required=False)
@json_option
def clear_command(name: str | None, as_json: bool) -> None:
    """Remove the entries on disk: all, or those of pairing NAME.

    \b
    Examples:
      llm specdec cache clear
      llm specdec cache clear qwen
    """
    known = registry.load()
    folder = limits.folder(known)
    with _disk_errors():
        gone = folder.clear(None if name is None else _pairing(known, folder, name))
    freed = sum(file.size for file in gone)
    if as_json:
        print_json({"removed_entries": len(gone), "removed_bytes": freed})
    else:
        echo(f"removed {counted(len(gone))}, {gigabytes(freed)}", err=True)


@cache_command.command(name="limit", short_help="Set how much it may hold")
@click.argument("size", required=False)
@click.option("--hot", metavar="SIZE", help="Limit in memory, within one process")
@yes_option
@json_option
def limit_command(size: str | None, hot: str | None, yes: bool, as_json: bool) -> None:
    """Set how much the cache may hold on disk (SIZE) and in memory (--hot).

    A size is 40GB, 16GiB or the like. 0 turns it off, auto returns to the default.
    10 GiB of the disk stay free whatever the limit. The other limit stays as it is. Where
    entries would have to go it says so, and asks on a terminal unless --yes is given.

    \b
    Examples:
      llm specdec cache limit 40GB --hot 16GB
      llm specdec cache limit auto
    """
    if size is None and hot is None:
        raise UsageError("give a size such as 40GB, auto, or --hot with one")
    before = registry.load()
    _check_limits(before, _bytes(size), _bytes(hot))
    held, free = limits.folder(before).contents(), limits.folder(before).free()
    if size is not None and on_terminal() and not yes:
        _ask_to_evict(held, limits.disk_cap(_bytes(size), held.nbytes, free))
    with registry.edit() as document:
        _set_limits(document, {"limit": size, "hot": hot})
    known = registry.load()
    folder = limits.folder(known)
    with _disk_errors():
        folder.trim()
    contents = folder.contents()
    caps = _caps(known, contents, folder.free())
    gone, freed = len(held.entries) - len(contents.entries), held.nbytes - contents.nbytes
    lines = [f"{place}: {cap}" for place, (cap, _) in caps.items()]
    lines[0] += _kept("auto", size, known.cache.get("limit"))
    lines[1] += _kept("--hot auto", hot, known.cache.get("hot"))
    lines += [f"removed {counted(gone)}, {gigabytes(freed)}"] if gone > 0 else []
    data = {place: _cap_json(*cap) for place, cap in caps.items()}
    done("\n".join(lines), {**data, "removed_entries": max(0, gone)}, as_json)


def _ask_to_evict(held: Contents, cap: Cap) -> None:
    """Where the cap leaves no room for all that is there. Raises click.Abort."""
    if held.nbytes > cap.nbytes:
        what = "all of them" if cap.nbytes == 0 else gigabytes(held.nbytes - cap.nbytes)
        confirm(
            f"The prefix cache holds {counted(len(held.entries))}, {gigabytes(held.nbytes)}: "
            f"remove {what}?"
        )


def _kept(reset: str, said: str | None, limit: int | None) -> str:
    """What to add about a limit of the user's own that was not spoken of."""
    if said is not None or limit is None:
        return ""
    return f", as before; llm specdec cache limit {reset} resets it"


# ---- status ----


def _status(known: Registry, warm: dict[str, Warm]) -> dict[str, Any]:
    folder = limits.folder(known)
    contents, free = folder.contents(), folder.free()
    caps = _caps(known, contents, free)
    return {
        "folder": str(folder.root),
        "disk": {
            "entries": len(contents.entries),
            "bytes": contents.nbytes,
            "free_bytes": free,
            "other_files": len(contents.foreign),
            "other_bytes": sum(contents.foreign),
            **_cap_json(*caps["disk"]),
        },
        "memory": _cap_json(*caps["memory"]),
        "pairings": [
            _pairing_row(name, known, contents, warm.get(name)) for name in _names(known, contents)
        ],
    }


def _names(known: Registry, contents: Contents) -> list[str]:
    """Registered pairings that run here, then others that still have entries."""
    here = [name for name, pairing in known.pairings.items() if not pairing.served]
    return list(dict.fromkeys([*here, *(entry.pairing for entry in contents.entries)]))


def _pairing_row(
    name: str, known: Registry, contents: Contents, warm: Warm | None
) -> dict[str, Any]:
    entries = [entry for entry in contents.entries if entry.pairing == name]
    used = max((entry.used for entry in entries), default=None)
    about = asdict(warm) if warm else {"runs": 0, "warm": 0, "cached_tokens": 0, "saved_ms": None}
    return {
        "name": name,
        "registered": name in known.pairings or name in known.problems,
        "entries": len(entries),
        "bytes": sum(entry.size for entry in entries),
        "last_used": used and datetime.fromtimestamp(used).isoformat(" ", timespec="minutes"),
        **about,
    }


def _shown(status: dict[str, Any]) -> Iterator[str]:
    disk, memory = status["disk"], status["memory"]
    held = f"{counted(disk['entries'])}, {gigabytes(disk['bytes'])}"
    yield f"disk    {held}; {_cap(disk)}"
    yield f"        {status['folder']}, {gigabytes(disk['free_bytes'])} free"
    if disk["other_files"]:
        files = f"{disk['other_files']} other file{'s' * (disk['other_files'] > 1)}"
        yield f"        {files}, {gigabytes(disk['other_bytes'])}: counted, never touched"
    yield f"memory  {_cap(memory)}"
    if status["pairings"]:
        yield ""
        yield from table([HEADINGS, *map(_cells, status["pairings"])])


HEADINGS = ("pairing", "entries", "size", "last used", "runs", "warm", "TTFT saved")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    saved = row["saved_ms"]
    return (
        row["name"] if row["registered"] else f"{row['name']} (removed)",
        str(row["entries"]),
        gigabytes(row["bytes"]),
        row["last_used"] or "–",
        str(row["runs"]),
        str(row["warm"]),
        "–" if saved is None or not row["warm"] else f"{saved / 1000:.1f} s",
    )


def _caps(known: Registry, contents: Contents, free: int) -> dict[str, tuple[Cap, int | None]]:
    """place → its cap and the user's own limit."""
    return {
        "disk": (limits.disk(known, contents.nbytes, free), known.cache.get("limit")),
        "memory": (limits.hot(known), known.cache.get("hot")),
    }


def _cap_json(cap: Cap, limit: int | None) -> dict[str, Any]:
    return {"cap_bytes": cap.nbytes, "cap_why": cap.why, "limit_bytes": limit}


def _cap(place: dict[str, Any]) -> Cap:
    return Cap(place["cap_bytes"], place["cap_why"])


# ---- clear, limit ----


def _pairing(known: Registry, folder: Folder, name: str) -> str:
    """The pairing behind a name or alias; one that is gone may still have entries."""
    if name in {entry.pairing for entry in folder.contents().entries}:
        return name
    return known.pairing(name).name


def _set_limits(document: "TOMLDocument", said: Mapping[str, str | None]) -> None:
    """Write what was said of each limit; a table that then says nothing goes, too."""
    chosen = document.get("cache", {})
    for name, size in said.items():
        if size == "auto":
            chosen.pop(name, None)
        elif size is not None:
            chosen[name] = size
    if chosen:
        document.setdefault("cache", chosen)
    elif "cache" in document and "#" not in chosen.as_string() + chosen.trivia.comment:
        del document["cache"]


def _bytes(said: str | None) -> int | None:
    if said in (None, "auto"):
        return None
    try:
        return int(SIZE.parse(said))
    except ValueError:
        raise UsageError(f"{said!r} is no limit: give {SIZE.form}, or auto") from None


def _check_limits(known: Registry, limit: int | None, hot: int | None) -> None:
    """Raises UsageError for a limit that is more than there is."""
    folder = limits.folder(known)
    room = limits.disk_cap(limit, folder.contents().nbytes, folder.free())
    if limit is not None and limit > room.nbytes:
        raise UsageError(
            f"{gigabytes(limit)} is more than the disk can hold: at most "
            f"{gigabytes(room.nbytes)} with 10 GiB left free"
        )
    if hot is not None and hot > (most := memory.total_for_states()):
        raise UsageError(
            f"--hot: {gigabytes(hot)} is more than the memory of this machine, {gigabytes(most)}"
        )


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResourceError(f"the prefix cache cannot be changed: {error}") from error
