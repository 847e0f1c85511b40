"""One prompt's way through the engine: settings, request, text as it comes, receipt.

The engine is imported inside functions: nothing heavy is loaded before a prompt runs.
"""

import functools
import secrets
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import llm
from llm.parts import StreamEvent

from llm_specdec import receipts, settings
from llm_specdec.adapter.events import Events
from llm_specdec.adapter.model_thread import Job
from llm_specdec.adapter.options import log_database, told_apart
from llm_specdec.backends.setup import Setup, load, sampling
from llm_specdec.console.notices import tell, warn
from llm_specdec.constraints import schemas
from llm_specdec.errors import ContextError, UsageError
from llm_specdec.pairings.registry import Pairing
from llm_specdec.prefix_cache import process
from llm_specdec.prompting import chat

if TYPE_CHECKING:
    from llm_specdec.constraints.grammar import GrammarConstraint
    from llm_specdec.constraints.masks import Constraint
    from llm_specdec.engine.loop import Run
    from llm_specdec.engine.phases import PhaseTimer
    from llm_specdec.engine.request import Request
    from llm_specdec.engine.session import Session, Weights
    from llm_specdec.engine.text import TextStream
    from llm_specdec.prefix_cache.lookup import PrefixCache
    from llm_specdec.prompting.sections import Sections


class Answer:
    """One prompt's way through the engine.

    Made on the caller's thread, where llm's command line can be asked what was given.
    Raises UsageError for a wrong option.
    """

    def __init__(
        self,
        model_id: str,
        pairing: Pairing,
        profile: str | None,
        prompt: llm.Prompt,
        response: llm.Response,
    ) -> None:
        self.model_id, self.prompt, self.response = model_id, prompt, response
        options = prompt.options.model_dump(exclude_none=True)
        stored, given = told_apart(model_id, options)
        self.resolution = settings.resolve(pairing, profile, stored, given, model_id)
        self.setup = Setup(pairing, profile, self.resolution)
        self.values = self.setup.values
        schema: Any = prompt.schema  # llm has made a dict of a class
        self._grammar = None if schema is None else schemas.grammar(schema)
        self._held: GrammarConstraint | None = None  # what keeps to the schema
        self._log = log_database()
        self._warn()

    def stream(self, job: Job) -> Generator[StreamEvent, None, None]:
        """Load, run and leave a receipt, on the thread that runs models."""
        from llm_specdec.engine.phases import PhaseTimer
        from llm_specdec.engine.target import tokenizer_of
        from llm_specdec.engine.text import TextStream
        from llm_specdec.prompting.sections import sections_of

        timer = PhaseTimer()
        with timer.loading():
            weights = self.setup.weights()
            tokenizer = tokenizer_of(weights.target)
        tools = chat.tools_for(self.prompt)
        sections = sections_of(tokenizer, bool(tools))
        rendered = self._rendered(tokenizer, tools)
        if tools:
            self._check_tools(sections)
        room = self._room(weights, len(rendered.tokens))  # all that can be refused, before loading
        with timer.loading():
            session = load(weights)
            if self._grammar is not None:
                session.token_table  # noqa: B018  read here, while loading is timed
            costs = self.setup.costs(session, tell=tell)
            prefix_cache = self._prefix_cache(session)
        text = TextStream(tokenizer.detokenizer, self.values["stop"], sections, rendered.opening)
        events = Events(sections, tools, self.prompt, self.response)
        request = self._request(session, rendered, text, sections, room)
        run = session.run(
            request,
            timer,
            draft_tokens=self.values["draft_tokens"],
            kv_bits=self.values["kv_bits"],
            costs=costs,
            history=self._history(),
            prefix_cache=prefix_cache,
        )
        tokens = run.tokens()
        job.keeps = True
        if prefix_cache:
            job.afterwards = functools.partial(self._keep, run, prefix_cache)
        try:
            for _ in tokens:
                yield from events.of(text.take())
                if job.cancelled:
                    break
            yield from events.of(text.finish())
        finally:
            tokens.close()  # type: ignore[attr-defined]
            self._leave_receipt(run, timer, request, text)

    def _request(
        self,
        session: "Session",
        rendered: chat.Rendered,
        text: "TextStream",
        sections: "Sections",
        max_tokens: int,
    ) -> "Request":
        from llm_specdec.engine.request import Request

        seed = self.values["seed"]
        return Request(
            prompt=rendered.tokens,
            max_tokens=max_tokens,
            eos=frozenset(session.tokenizer.eos_token_ids),
            sampling=sampling(self.values),
            seed=secrets.randbits(63) if seed is None else seed,
            ends_at=text.feed,
            constraints=self._constraints(session, text, sections, max_tokens),
            boundaries=rendered.shared,
        )

    def _history(self) -> list[tuple[int, int]]:
        """Acceptance of the pairing's logged runs, the policy's prior; none with a seed of the
        user's own, whose text must not depend on what was logged before."""
        if self.values["seed"] is not None or self.setup.lane.state != "drafting":
            return []
        return receipts.acceptance(llm.user_dir() / "logs.db", self.setup.pairing.name)

    def _prefix_cache(self, session: "Session") -> "PrefixCache | None":
        if not self.values["prefix_cache"]:
            return None
        name, kv_bits = self.setup.pairing.name, self.values["kv_bits"]
        return process.cache_for(session, name, kv_bits, warn=warn)

    def _keep(self, run: "Run", prefix_cache: "PrefixCache") -> None:
        """Keep the run's states: in memory, and on disk where llm logs what was said."""
        from llm_specdec import memory

        if memory.free().nbytes < 2 * run.cache.nbytes:
            return  # no room for copies of them
        entries = run.entries()
        prefix_cache.keep(entries)
        if self._log:
            prefix_cache.store(entries)

    def _room(self, weights: "Weights", prompt_tokens: int) -> int:
        """Tokens that the answer may have. Raises ContextError, and ResourceError where prompt
        and max_tokens (at least a short answer) do not fit into memory."""
        from llm_specdec.engine.target import context_of
        from llm_specdec.memory import STEP

        native = context_of(weights.target)
        context = self.setup.context(native)
        room = context - prompt_tokens
        if room < 1:
            raise ContextError(
                f"the prompt has {prompt_tokens} tokens, the context of {self.model_id} {context}: "
                f"shorten it{', or raise the context setting' if context < native else ''}"
            )
        longest: int | None = self.values["max_tokens"]
        self.setup.admit(weights, prompt_tokens + (longest or STEP))
        return min(longest or room, room)

    def _constraints(
        self, session: "Session", text: "TextStream", sections: "Sections", max_tokens: int
    ) -> list["Constraint"]:
        from llm_specdec.constraints.after_thinking import AfterThinking
        from llm_specdec.constraints.thinking_budget import Budget
        from llm_specdec.prompting.sections import TEXT

        found: list[Constraint] = []
        limit, vocab_size = self.values["thinking_budget"], session.target.vocab_size
        if limit is not None:
            if not sections.think_end:
                raise UsageError("this model has no markers of thinking: unset thinking_budget")
            found.append(Budget(sections, text.section, limit, vocab_size))
        if self._grammar is not None:
            self._held = session.constraint(self._grammar, max_tokens)
            thinks = text.section != TEXT or self.values["thinking"] != "off"
            if sections.think_end and thinks:
                found.append(AfterThinking(self._held, sections, text.section))
            else:
                found.append(self._held)
        return found

    def _rendered(self, tokenizer: Any, tools: list[dict[str, Any]]) -> chat.Rendered:
        system = self.values["system"]
        if system == "forbid" and self.prompt.system:
            raise UsageError(
                f"{self.model_id} forbids a system prompt (set by "
                f"{self.resolution.settings['system'].source}): leave -s out"
            )
        default = None if system in ("allow", "forbid") else system
        messages = chat.messages_for(self.prompt, default)
        spoken = any(message["content"].strip() for message in messages)
        rendered = chat.render(tokenizer, messages, self.values, tools) if spoken else None
        if rendered is None or not rendered.tokens:
            raise UsageError("the prompt is empty: give some text")
        return rendered

    def _check_tools(self, sections: "Sections") -> None:
        if self._grammar is not None:
            raise UsageError("tools and a schema at once cannot be kept to: leave one out")
        if not sections.parse:
            raise UsageError("mlx-lm cannot read the tool calls of this model: leave -T out")

    def _warn(self) -> None:
        warnings = self.resolution.warnings
        if self.prompt.system and (against := settings.against_system(self.resolution)):
            warnings.append(against)
        for warning in warnings:
            warn(warning)

    def _leave_receipt(
        self, run: "Run", timer: "PhaseTimer", request: "Request", text: "TextStream"
    ) -> None:
        """Set usage and response_json, also where the run ended early: llm logs an interrupted
        response that returned."""
        reasoning = text.reasoning
        receipt = receipts.payload(
            self.setup.measured(run, timer, request, 1000 * timer.load, reasoning)
        )
        if self._held:
            receipt["constraint"] = _kept_to(self._held, run, request, text.stopped_by)
        self.response.response_json = {"specdec": receipt}
        self.response.set_usage(
            input=receipt["tokens"]["prompt"],
            output=receipt["tokens"]["completion"],
            details={
                "cached": receipt["tokens"]["cached"],
                **({"reasoning": reasoning} if reasoning else {}),
                "drafted": receipt["draft"]["drafted"],
                "accepted": receipt["draft"]["accepted"],
            },
        )
        if self._log:
            receipts.ensure_view(self._log)


def _kept_to(
    constraint: "GrammarConstraint", run: "Run", request: "Request", stopped_by: str | None
) -> dict[str, Any]:
    """What the receipt says of the schema; on stderr, too, where the answer had to be shorter
    than it would have been."""
    complete, closed = constraint.complete and stopped_by is None, constraint.closed
    more = f"max_tokens {request.max_tokens} was reached, raise it"
    if complete and closed:
        warn(f"the JSON is valid but was ended early: {more}")
    elif stopped_by is not None:
        warn(f"the JSON is cut and not valid: the stop string {stopped_by!r} came")
    elif not complete and run.stats.finish_reason != "interrupted":
        why = more if constraint.left <= 0 else "nothing that the schema allows could follow"
        warn(f"the JSON is cut and not valid: {why}")
    return {"kind": "schema", "complete": complete, "ended_early": complete and closed}
