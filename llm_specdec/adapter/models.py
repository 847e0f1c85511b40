"""A pairing or profile as an llm model.

Nothing heavy is imported before a prompt runs.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Iterator
from typing import Annotated, Any

import click
import llm
import pydantic
from llm.models import _BaseModel
from llm.parts import StreamEvent

from llm_specdec import settings
from llm_specdec.adapter.answer import Answer
from llm_specdec.adapter.interrupts import interruptible
from llm_specdec.adapter.model_thread import Done, Reading, submit
from llm_specdec.adapter.options import llm_command
from llm_specdec.backends.served.engines import ENGINES
from llm_specdec.errors import SpecdecError
from llm_specdec.pairings.registry import Pairing

IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})


def _options() -> type[llm.Options]:
    """Options from the table of settings. Values are checked when a prompt runs, so that a
    wrong one is one line that names the allowed form. Every default is None: any other would
    hide the user's stored option once a `-o` is given."""
    fields: Any = {
        name: (
            Annotated[Any, pydantic.WithJsonSchema({"type": setting.form.form})],
            pydantic.Field(default=None, description=setting.help),
        )
        for name, setting in settings.SETTINGS.items()
        if setting.option
    }
    options: type[llm.Options] = pydantic.create_model("Options", __base__=llm.Options, **fields)
    return options


class _Specdec(_BaseModel):
    """What the two kinds of llm model have in common: `NAME` or `NAME/PROFILE`."""

    can_stream = True
    supports_tools = True  # said before a template was read; one without tools is an error
    supports_schema = True
    Options = _options()  # type: ignore[assignment]

    def __init__(self, model_id: str, pairing: Pairing, profile: str | None) -> None:
        self.model_id = model_id
        self.pairing, self.profile = pairing, profile
        if pairing.served and ENGINES[pairing.served.engine].images:
            self.attachment_types = IMAGES

    def __str__(self) -> str:
        return f"specdec: {self.model_id}"

    def _answer(self, prompt: llm.Prompt, response: Any) -> Answer:
        return Answer(self.model_id, self.pairing, self.profile, prompt, response)


class SpecdecModel(_Specdec, llm.Model):
    def execute(
        self,
        prompt: llm.Prompt,
        stream: bool,
        response: llm.Response,
        conversation: llm.Conversation | None,
    ) -> Iterator[str | StreamEvent]:
        with _in_llms_terms():
            answer = self._answer(prompt, response)
            reading = Reading(answer.stream, alone=not self.pairing.served)
            yield from _line_ended(interruptible(reading))


class AsyncSpecdecModel(_Specdec, llm.AsyncModel):
    """Answers wait for each other, in the order asked, but those of servers; a cancelled one
    ends within a round."""

    async def execute(
        self,
        prompt: llm.Prompt,
        stream: bool,
        response: llm.AsyncResponse,
        conversation: llm.AsyncConversation | None,
    ) -> AsyncGenerator[str | StreamEvent, None]:
        loop, inbox = asyncio.get_running_loop(), asyncio.Queue[Any]()
        with _in_llms_terms():
            answer = self._answer(prompt, response)
            put = functools.partial(_hand_over, loop, inbox)
            job = submit(answer.stream, put, alone=not self.pairing.served)
            try:
                while not isinstance(item := await inbox.get(), Done):
                    yield item
                if item.error:
                    raise item.error
            finally:
                job.cancel()


def _hand_over(loop: asyncio.AbstractEventLoop, inbox: asyncio.Queue[Any], item: object) -> None:
    loop.call_soon_threadsafe(inbox.put_nowait, item)


def _line_ended(items: Iterator[StreamEvent]) -> Iterator[StreamEvent]:
    """On llm's command line, what an answer breaks off with begins a line of its own."""
    began = False
    try:
        for item in items:
            began = True
            yield item
    except SpecdecError:
        if began and llm_command() is not None:
            yield StreamEvent("text", "\n")
        raise


class _Refused(llm.ModelError, click.ClickException):
    """llm's own error, and one line where llm lets it pass: `llm chat` would show a traceback."""


@contextlib.contextmanager
def _in_llms_terms() -> Iterator[None]:
    try:
        yield
    except SpecdecError as error:
        raise _Refused(str(error)) from error
