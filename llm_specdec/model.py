"""A pairing or profile as an llm model.

Nothing heavy is imported before a prompt runs.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import llm
import pydantic

from llm_specdec import settings
from llm_specdec.answer import Answer
from llm_specdec.errors import SpecdecError
from llm_specdec.interrupts import interruptible
from llm_specdec.registry import Pairing


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


class SpecdecModel(llm.Model):
    """`NAME` or `NAME/PROFILE`."""

    can_stream = True

    def __init__(self, model_id: str, pairing: Pairing, profile: str | None) -> None:
        self.model_id = model_id
        self.pairing, self.profile = pairing, profile

    Options = _options()  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"specdec: {self.model_id}"

    def execute(
        self,
        prompt: llm.Prompt,
        stream: bool,
        response: llm.Response,
        conversation: llm.Conversation | None,
    ) -> Iterator[str]:
        try:
            yield from interruptible(
                Answer(self.model_id, self.pairing, self.profile, prompt, response).stream()
            )
        except SpecdecError as error:
            raise llm.ModelError(str(error)) from error
