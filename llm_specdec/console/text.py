"""The one way in which text reaches a person's terminal.

Names, messages and cards come from strangers. An escape sequence in one of them could retitle
or recolour the terminal, a direction mark could show a name backwards, and a line end could
make one item look like two. Each such character is shown as a replacement character. What a
model says goes to stdout as it is: pipelines read it.
"""

import contextlib
import re
import sys

import click

# Controls but for tab and line end, marks of direction, line ends by other names, surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def clean(text: str) -> str:
    """The text with what a terminal would obey made visible."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """The same for a name or a value, which must not look like two of them."""
    return clean(text.replace("\n", "⏎").replace("\t", " "))


def escaped(json: str) -> str:
    """JSON that means the same and has no such character in it."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def echo(text: str, err: bool = False) -> None:
    """Print text for a person."""
    click.echo(clean(text), err=err)


def overwrite(text: str, width: int = 0) -> None:
    """Put at most `width` signs of text in place of the terminal's last line, on stderr."""
    with contextlib.suppress(OSError, ValueError):  # the terminal is gone
        sys.stderr.write(f"\r\x1b[K{one_line(text)[:width]}")
        sys.stderr.flush()


def confirm(question: str, default: bool = False, abort: bool = False) -> bool:
    """Ask on stderr. abort: raise click.Abort where the answer is no."""
    return click.confirm(clean(question), default=default, abort=abort, err=True)
