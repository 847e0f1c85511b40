"""Conversations to text: by the chat template in a process of its own, within limits of time and
memory, or by the Python code that some tokenizers bring instead of one."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from llm_specdec.errors import UsageError

SECONDS = 5  # a long conversation takes some hundredths
MEMORY = 1 << 30
_WAIT = 0.02  # seconds between looks at an interrupt and at the memory
_REASONING = ("reasoning_content", "thinking", "reasoning")  # one thing by three names


class Conversation(NamedTuple):
    """generation_prompt: whether the text ends with what opens the model's answer."""

    messages: Sequence[Mapping[str, Any]]
    generation_prompt: bool = True


class Shown(NamedTuple):
    """A conversation as the model reads it."""

    text: str
    tokens: Callable[[], list[int]]


def show(
    tokenizer: Any,
    template: str | None,
    conversations: Sequence[Conversation],
    arguments: Mapping[str, Any],
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Shown | UsageError]:
    """Each of the conversations, or why the template refuses it.

    template: None where the tokenizer renders in Python. arguments: what is handed to the
    template beside the conversation. Raises KeyboardInterrupt once `cancelled` says so.
    """
    if template is None:
        return [_by_tokenizer(tokenizer, one, arguments) for one in conversations]
    given = {
        "tools": None,
        "documents": None,
        "enable_thinking": tokenizer.has_thinking,
        **{name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        **arguments,
    }
    values = [
        given
        | {
            "messages": [_aliased(message) for message in one.messages],
            "add_generation_prompt": one.generation_prompt,
        }
        for one in conversations
    ]
    return [
        found if isinstance(found, UsageError) else Shown(found, _encoding(tokenizer, found))
        for found in render(template, values, cancelled)
    ]


def _encoding(tokenizer: Any, text: str) -> Callable[[], list[int]]:
    return lambda: list(tokenizer.encode(text, add_special_tokens=False))


def _by_tokenizer(
    tokenizer: Any, one: Conversation, arguments: Mapping[str, Any]
) -> Shown | UsageError:
    def applied(tokenize: bool) -> Any:
        return tokenizer.apply_chat_template(
            list(one.messages),
            add_generation_prompt=one.generation_prompt,
            tokenize=tokenize,
            **arguments,
        )

    try:
        return Shown(applied(tokenize=False), lambda: list(applied(tokenize=True)))
    except Exception as error:  # such code may raise anything
        return _refusal(str(error))


def _aliased(message: Mapping[str, Any]) -> dict[str, Any]:
    """Thinking under the names that templates ask for it, as transformers does."""
    found = {name: value for name, value in message.items() if value is not None}
    thought = next((found[name] for name in _REASONING if name in found), None)
    if thought is None:
        return found
    return {"thinking": thought, **found, "reasoning_content": thought}


def render(
    template: str, values: Sequence[Mapping[str, Any]], cancelled: Callable[[], bool]
) -> list[str | UsageError]:
    """The template's text for each set of values, made in a process that has SECONDS and MEMORY.

    Raises KeyboardInterrupt.
    """
    asked = {
        "template": template,
        "conversations": values,
        "seconds": SECONDS,
        "memory": MEMORY,
    }
    process = _process()
    said = _wait(process, json.dumps(asked, default=str).encode(), cancelled)
    found: list[str | UsageError] = []
    for line in said.decode().splitlines():
        outcome = json.loads(line)
        found.append(outcome["text"] if "text" in outcome else _refusal(outcome["error"]))
    slow = process.returncode == -signal.SIGALRM
    why = f"it takes more than {SECONDS} s" if slow else "it needs too much memory"
    return found + [_refusal(why)] * (len(values) - len(found))


_waiting: "list[subprocess.Popen[bytes]]" = []  # one at most


def start_ahead() -> None:
    """Start the process of the next rendering now: that takes it some 60 ms, in which the caller
    does something else."""
    if not _waiting:
        _waiting.append(_started())


def _process() -> "subprocess.Popen[bytes]":
    """The one that was started ahead, if it still waits."""
    if _waiting and (process := _waiting.pop()).poll() is None:
        return process
    return _started()


def _started() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", Path(__file__).with_name("sandbox.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is for this process, which ends that one
    )


def _wait(process: "subprocess.Popen[bytes]", asked: bytes, cancelled: Callable[[], bool]) -> bytes:
    """What the process says until it ends, or has to."""
    said: list[bytes] = []
    talk = threading.Thread(target=lambda: said.append(process.communicate(asked)[0]), daemon=True)
    talk.start()
    try:
        while talk.is_alive():
            talk.join(_WAIT)
            if cancelled():
                raise KeyboardInterrupt
            if _memory_of(process.pid) > MEMORY:
                process.kill()
    finally:
        process.kill()  # `talk` then reads to the end and closes the pipes, also without us
        talk.join()
    return said[0]


def _memory_of(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:  # it has just ended
        return 0


def _refusal(why: str) -> UsageError:
    """Why is the template's own text, and may quote the whole prompt."""
    short = textwrap.shorten(why, 120, placeholder=" …")
    if len(short) < 10 < len(why):  # one long word
        short = f"{why[:117]} …"
    return UsageError(f"the model's chat template refuses this conversation: {short}")
