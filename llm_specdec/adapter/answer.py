"""One prompt's way through a backend: plan, request, events as llm's, receipt."""

import atexit
import contextlib
import functools
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import llm
from llm.parts import StreamEvent

from llm_specdec import files, receipts, settings
from llm_specdec.adapter.events import as_llms, request_of
from llm_specdec.adapter.model_thread import Job
from llm_specdec.adapter.options import llm_command, log_database, told_apart
from llm_specdec.adapter.reminders import switched_off_today
from llm_specdec.backends import Event, Notice, Plan, Result, Started, execute, plan
from llm_specdec.backends.notices import show
from llm_specdec.console.notices import warn
from llm_specdec.console.progress import progress
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing

LONG_LOAD = 2000.0  # ms, after which a user is told of `llm specdec keep`


class Answer:
    """One prompt's way through a backend.

    Made on the caller's thread, where llm's command line can be asked what was given.
    Raises UsageError for a wrong option.
    """

    def __init__(
        self,
        model_id: str,
        pairing: Pairing,
        profile: str | None,
        prompt: llm.Prompt,
        response: Any,
    ) -> None:
        options = prompt.options.model_dump(exclude_none=True)
        stored, given = told_apart(model_id, options)
        self._resolution = settings.resolve(pairing, profile, stored, given, model_id)
        self._model_id, self._pairing, self._profile = model_id, pairing, profile
        self._prompt, self._response = prompt, response
        self._log = log_database()
        command = llm_command()
        self._commanded = command is not None
        self._last = command is not None and command.info_name != "chat"
        # From Python a worker is used only where the prompt or the pairing asks for it.
        self._keep_alive = registry.load().keep_alive if self._commanded else "0"
        _warn(self._resolution, prompt)
        if self._commanded and not pairing.enabled and self._resolution.values["draft"]:
            switched_off_today(pairing)

    def stream(self, job: Job) -> Generator[StreamEvent, None, None]:
        """Run and leave a receipt, on the thread that runs models. Until the answer begins a
        terminal shows what it waits for."""
        plan = self._planned()
        events = execute(plan, request_of(self._prompt, plan), lambda: job.cancelled)
        with contextlib.ExitStack() as waiting:
            change = waiting.enter_context(self._progress())
            for event in events:
                match event:
                    case Started():
                        job.keeps = True
                        change("reading the prompt")
                    case Notice():
                        show(event, change)
                    case Result():
                        waiting.close()
                        self._leave_receipt(event)
                        self._say_of_keep(event)
                        break
                    case _:
                        waiting.close()
                        yield from as_llms(event, self._response)
        job.afterwards = functools.partial(self._finish, events)

    def _progress(self) -> contextlib.AbstractContextManager[Callable[[str], None]]:
        """Nothing is shown on the terminal of a program that uses llm as a library."""
        if self._commanded:
            return progress(f"loading {self._model_id}")
        return contextlib.nullcontext(lambda text: None)

    def _finish(self, events: Iterator[Event]) -> None:
        """What a backend does once the reader has everything. A command that ends with this
        answer shows what it still waits for; the terminal of a chat is the user's again."""
        with contextlib.ExitStack() as waiting:

            def tell(text: str) -> None:
                if self._last:
                    waiting.enter_context(progress(text))

            for event in events:
                if isinstance(event, Notice):
                    show(event, tell)

    def _planned(self) -> Plan:
        return plan(
            self._pairing,
            self._profile,
            self._resolution,
            self._model_id,
            log=llm.user_dir() / "logs.db",
            keeps_on_disk=self._log is not None,
            keep_alive=self._keep_alive,
        )

    def _say_of_keep(self, result: Result) -> None:
        """To a person, once ever, where loading was waited for: that it need not be."""
        said = registry.default_path().with_name("said-of-keep")
        long = result.phases_ms.get("load", 0.0) > LONG_LOAD
        if (
            long
            and self._commanded
            and sys.stderr.isatty()
            and self._keep_alive == "0"
            and not said.exists()
        ):
            warn(
                f"loading took {result.phases_ms['load'] / 1000:.0f} s: `llm specdec keep 10m` "
                "keeps the model in memory for the next command (this is said once)"
            )
            with contextlib.suppress(OSError):
                files.make_private(said)

    def _leave_receipt(self, result: Result) -> None:
        """Set usage and response_json, also where the run ended early: llm logs an interrupted
        response that returned."""
        receipt = receipts.payload(result)
        counts = {
            "cached": receipt["tokens"]["cached"],
            "reasoning": result.reasoning_tokens or None,
            "drafted": receipt["draft"]["drafted"],
            "accepted": receipt["draft"]["accepted"],
        }
        self._response.response_json = {"specdec": receipt}
        self._response.set_usage(
            input=receipt["tokens"]["prompt"],
            output=receipt["tokens"]["completion"],
            details={name: count for name, count in counts.items() if count is not None},
        )
        if self._log and not receipts.ensure_view(self._log):
            # llm makes its tables when it logs its first answer, which comes after this.
            atexit.unregister(receipts.ensure_view)
            atexit.register(receipts.ensure_view, self._log)


def _warn(resolution: settings.Resolution, prompt: llm.Prompt) -> None:
    warnings = resolution.warnings
    if prompt.system and (against := settings.against_system(resolution)):
        warnings.append(against)
    for warning in warnings:
        warn(warning)
