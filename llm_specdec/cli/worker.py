"""`llm specdec keep, ps, stop`: models that stay in memory between commands."""

import time
from typing import Any

import click

from llm_specdec.backends.resident import control
from llm_specdec.backends.resident.control import Held
from llm_specdec.cli.output import done, json_option, print_json, table, warn
from llm_specdec.console.sizes import gigabytes
from llm_specdec.console.text import echo
from llm_specdec.errors import CheckFailed, UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Registry
from llm_specdec.settings import DURATION


@click.command(name="keep", short_help="Keep models in memory between commands")
@click.argument("duration", required=False)
@json_option
def keep_command(duration: str | None, as_json: bool) -> None:
    """Keep models in memory between commands, for DURATION after the last answer.

    DURATION is a time such as 90s, 10m or 1h; 0 turns it off, forever never ends by itself.
    Without it, say what holds now. A pairing may have its own: set NAME keep_alive=1h.

    \b
    Examples:
      llm specdec keep 10m
      llm specdec keep 0
      llm specdec set qwen keep_alive=1h
    """
    if duration is None:
        now = registry.load().keep_alive
    else:
        now = _checked(duration)
        with registry.edit() as document:
            if now == "0":
                document.pop("keep_alive", None)
            else:
                document["keep_alive"] = now
    done(_kept(now), {"keep_alive": now}, as_json)


def _checked(duration: str) -> str:
    try:
        return str(DURATION.parse(duration))
    except ValueError:
        raise UsageError(f"{duration!r} is not {DURATION.form}") from None


def _kept(duration: str) -> str:
    if duration == "0":
        return (
            "models are not kept in memory: each command loads its own; "
            "llm specdec keep 10m keeps them, llm specdec stop ends those that run"
        )
    limit = "until llm specdec stop" if duration == "forever" else f"for {duration} after an answer"
    return f"models stay in memory {limit}; llm specdec ps shows them"


@click.command(name="ps", short_help="Show the models in memory")
@json_option
def ps_command(as_json: bool) -> None:
    """Show the models that are kept in memory, and for how long. Keeps none alive.

    \b
    Examples:
      llm specdec ps
      llm specdec ps --json
    """
    known, found = registry.load(), control.workers()
    if as_json:
        print_json([_as_json(held, known) for held in found])
    elif not found:
        echo("no models in memory", err=True)
    else:
        heads = ("PAIRINGS", "MEMORY", "UP", "IDLE", "LEFT", "PROMPTS", "CACHED", "PID")
        echo("\n".join(table([heads, *(_row(held, known) for held in found)])))


def _row(held: Held, known: Registry) -> tuple[str, ...]:
    status = held.status
    if held.stuck:
        memory, pid = gigabytes(held.nbytes), "" if held.pid is None else str(held.pid)
        return ("does not answer", memory, *["–"] * 5, pid)
    left = status["left_s"]
    return (
        ", ".join(_names(held, known)) or "–",
        gigabytes(held.nbytes),
        _short(time.time() - status["since"]),
        "busy" if status["busy"] else _short(status["idle_s"]),
        "forever" if left is None else _short(left),
        str(status["requests"]),
        str(status["entries"]),
        str(status["pid"]),
    )


def _as_json(held: Held, known: Registry) -> dict[str, Any]:
    return {
        "pid": held.pid,
        **held.status,
        "bytes": held.nbytes,
        "pairings": _names(held, known),
        "answers": not held.stuck,
        "outdated": held.outdated,
        "log": str(held.place.log),
    }


def _names(held: Held, known: Registry) -> list[str]:
    """The pairings that were asked for; those that the registry has not any more are marked."""
    asked = held.status.get("pairings", [])
    return [name if name in known.pairings else f"{name} (removed)" for name in asked]


def _short(seconds: float) -> str:
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


@click.command(name="stop", short_help="Give the memory of models back")
@click.argument("name", required=False)
@json_option
def stop_command(name: str | None, as_json: bool) -> None:
    """Give the memory of models back: of all, or of the one that pairing NAME runs.

    An answer under way ends, as with Ctrl-C.

    \b
    Examples:
      llm specdec stop
      llm specdec stop qwen
    """
    chosen = [
        (held, held.nbytes)
        for held in control.workers()
        if name is None or name in held.status.get("pairings", ())
    ]
    if name is not None and not chosen:
        registry.load().pairing(name)  # it may be a slip
    ended = [held for held, _ in chosen if control.stop(held)]
    for held, _ in chosen:
        if held not in ended:
            warn(f"the worker at {held.place.socket} does not end: kill it by hand")
    freed = sum(memory for held, memory in chosen if held in ended)
    text = f"stopped {len(ended)}, {gigabytes(freed)} given back" if ended else "nothing to stop"
    done(text, {"stopped": len(ended), "bytes": freed}, as_json)
    if len(ended) < len(chosen):
        raise CheckFailed("not every worker ended")
