"""What is said beside the answer, on stderr: stdout is the answer's alone."""

import functools

from llm_specdec.console.progress import say
from llm_specdec.console.text import one_line


@functools.cache
def warn(text: str) -> None:
    """Once a process: a chain of tools or a chat would repeat it every turn."""
    say(f"Warning: {one_line(text)}")
