"""What is said beside the answer, on stderr: stdout is the answer's alone."""

import functools
import sys

from llm_specdec.console.text import echo, one_line


@functools.cache
def warn(text: str) -> None:
    """Once a process: a chain of tools or a chat would repeat it every turn."""
    echo(f"Warning: {one_line(text)}", err=True)


def tell(text: str) -> None:
    """Say why it takes a moment, to a person only."""
    if sys.stderr.isatty():
        echo(text, err=True)
