"""A request as token ids, and all that is refused before anything is loaded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_specdec import memory
from llm_specdec.backends.events import Request
from llm_specdec.backends.local.loading import admit
from llm_specdec.backends.planning import Plan
from llm_specdec.constraints import schemas
from llm_specdec.engine.tokenizer import vocabulary_of
from llm_specdec.errors import ContextError, UsageError
from llm_specdec.prompting import chat
from llm_specdec.prompting.sections import Sections, sections_of


@dataclass(frozen=True)
class Prepared:
    """A prompt for the engine. opening, boundaries: see `chat.Rendered`, whose `shared` these
    are. sections: of the answer's text; None where the answer is token ids."""

    tokens: Sequence[int]
    max_tokens: int
    grammar: str | None = None
    ignore_eos: bool = False
    sections: Sections | None = None
    opening: str = ""
    boundaries: Callable[[], Sequence[int]] = field(default=tuple)


def prepare(
    plan: Plan, request: Request, tokenizer: Any, cancelled: Callable[[], bool]
) -> Prepared:
    """Raises UsageError, ContextError, ResourceError, UnsupportedError, and KeyboardInterrupt
    once `cancelled` says so."""
    if request.tokens:
        return of_tokens(plan, request, _room(plan, request, len(request.tokens)))
    grammar = _grammar(request)
    sections = sections_of(tokenizer, bool(request.tools))
    rendered = _rendered(plan, request, tokenizer, cancelled)
    _check_ids(plan, rendered.tokens)
    if request.tools:
        _check_tools(request, sections)
    return Prepared(
        rendered.tokens,
        _room(plan, request, len(rendered.tokens)),
        grammar,
        request.ignore_eos,
        sections,
        rendered.opening,
        rendered.shared,
    )


def of_tokens(plan: Plan, request: Request, max_tokens: int) -> Prepared:
    """A prompt that is token ids. Raises UsageError."""
    _check_ids(plan, request.tokens)
    return Prepared(request.tokens, max_tokens, _grammar(request), request.ignore_eos)


def stretched(plan: Plan) -> str | None:
    """What to say where the context setting goes beyond what the model was made for."""
    native, context = vocabulary_of(Path(plan.target)).positions.native, plan.settings["context"]
    if not (native and context and context > native):
        return None
    return (
        f"context {context} is more than the {native} tokens that the model was made for: "
        "what it writes beyond them may be worthless"
    )


def _check_ids(plan: Plan, tokens: Sequence[int]) -> None:
    """What the model has no row for would be read from somewhere in memory."""
    vocabulary = vocabulary_of(Path(plan.target))
    token = vocabulary.missing(tokens)
    if token is not None:
        raise UsageError(
            f"the prompt has a token of id {token}, and the model's embedding has "
            f"{vocabulary.rows} rows: leave that text out, or use a build with its own tokenizer"
        )


def _grammar(request: Request) -> str | None:
    return None if request.schema is None else schemas.grammar(request.schema)


def _rendered(
    plan: Plan, request: Request, tokenizer: Any, cancelled: Callable[[], bool]
) -> chat.Rendered:
    messages: Sequence[Mapping[str, Any]] = request.messages
    spoken = any(message["content"].strip() for message in messages)
    if spoken:
        rendered = chat.render(tokenizer, messages, plan.settings, request.tools, cancelled)
        if rendered.tokens:
            return rendered
    raise UsageError("the prompt is empty: give some text")


def _check_tools(request: Request, sections: Sections) -> None:
    if request.schema is not None:
        raise UsageError("tools and a schema at once cannot be kept to: leave one out")
    if not sections.parse:
        raise UsageError("mlx-lm cannot read the tool calls of this model: leave -T out")


def _room(plan: Plan, request: Request, prompt_tokens: int) -> int:
    """Tokens that the answer may have. Raises ContextError, and ResourceError where prompt
    and max_tokens (at least a short answer) do not fit into memory."""
    positions = vocabulary_of(Path(plan.target)).positions
    context = plan.context(positions)
    room = context - prompt_tokens
    if room < 1:
        higher = context < positions.context
        raise ContextError(
            f"the prompt has {prompt_tokens} tokens, the context of {plan.model_id} {context}: "
            f"shorten it{', or raise the context setting' if higher else ''}"
        )
    longest: int | None = request.max_tokens or plan.settings["max_tokens"]
    admit(plan, prompt_tokens + (longest or memory.STEP))
    return min(longest or room, room)
