"""Chat templates are programs of strangers: how they are parsed, and the process they run in.

    python sandbox.py      reads {template, conversations, seconds, memory} as JSON and writes,
                           a line for each conversation, {text} or {error}

The process has a time, a memory and nothing to write to; the parent may end it whenever it
likes. It imports nothing of this package. What a template finds here is what transformers gives
it, so that both make the same text of a conversation.
"""

import contextlib
import json
import resource
import signal
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MOST_CHARACTERS = 16_000_000  # of a conversation's text; a million tokens have some four


class _Unfolded(ImmutableSandboxedEnvironment):
    """Operators wait until they are run: `'a' * 10**9` in a branch that is never taken is then
    a matter of ten characters."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)


class _Generation(Extension):
    """`{% generation %}` marks what the model said, for training. It leaves no trace here."""

    tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Dict:
    """`dict`, without the attributes of a class."""

    def __call__(self, *args: Any, **values: Any) -> dict[Any, Any]:
        return dict(*args, **values)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """`namespace`, without names that reach what is inside of Python."""

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _namespace(*args: Any, **values: Any) -> Namespace:
    found = dict(*args, **values)
    for name in found:
        _check_name(name)
    return _Namespace(found)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace takes no name such as {name!r}")


def _raise_exception(message: object) -> None:
    raise jinja2.TemplateError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is; jinja2's own filter writes it for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


@jinja2.pass_context
def _as_it_is(context: jinja2.runtime.Context, value: object) -> object:
    """Wants the context, which keeps filters of constants from being run by the compiler."""
    return value


def environment() -> jinja2.Environment:
    found = _Unfolded(
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,
        finalize=_as_it_is,
        extensions=[_Generation, "jinja2.ext.loopcontrols"],
    )
    found.filters["tojson"] = _tojson
    found.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "dict": _Dict(),
        "namespace": _namespace,
    }
    return found


def _limit(seconds: float, memory: int) -> None:
    """End by a signal after so long, whatever runs then; no more memory, no files, no dump."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    limits = {resource.RLIMIT_AS: memory, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for kind, most in limits.items():
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit of address space
            resource.setrlimit(kind, (most, most))


def _outcome(template: str, values: Mapping[str, Any]) -> dict[str, str]:
    try:
        text = environment().from_string(template).render(values)
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:  # a template may raise anything
        return {"error": str(error)[:1000] or type(error).__name__}
    if len(text) > MOST_CHARACTERS:
        return {"error": f"it makes {len(text):,} characters of it"}
    return {"text": text}


def main() -> None:
    text = sys.stdin.read()
    if not text:  # whoever started it ahead is gone
        return
    asked = json.loads(text)
    _limit(asked["seconds"], asked["memory"])
    for values in asked["conversations"]:
        sys.stdout.write(json.dumps(_outcome(asked["template"], values)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
