"""A request's way through the engine."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from llm_specdec import memory
from llm_specdec.backends.events import Event, Notice, Request, Started
from llm_specdec.backends.local import loading, outcome, prompts, tokenizers
from llm_specdec.backends.local.answers import TextAnswer, TokenAnswer
from llm_specdec.backends.local.loading import Loaded
from llm_specdec.backends.local.prompts import Prepared
from llm_specdec.backends.planning import Plan
from llm_specdec.constraints.after_thinking import AfterThinking
from llm_specdec.constraints.grammar import GrammarConstraint
from llm_specdec.constraints.masks import Constraint
from llm_specdec.constraints.thinking_budget import Budget
from llm_specdec.engine import request as engine
from llm_specdec.engine.hardware.device import wired
from llm_specdec.engine.outcome import Outcome
from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.sampling.logits_processors import Sampling
from llm_specdec.engine.session import Session
from llm_specdec.engine.tokenizer import tokenizer_of
from llm_specdec.errors import UsageError
from llm_specdec.prompting import rendering
from llm_specdec.prompting.sections import TEXT, Sections
from llm_specdec.prompting.text import TextStream

Answer = TextAnswer | TokenAnswer


def execute(
    plan: Plan, request: Request, cancelled: Callable[[], bool]
) -> Generator[Event, None, None]:
    """See `backends.execute`. To be iterated on one thread, the same for all runs: mlx keeps
    its streams by thread."""
    if request.messages:
        rendering.start_ahead()
    timer, warnings = PhaseTimer(), list[str]()
    with timer.loading():
        tokenizers.restore(Path(plan.target))
        tokenizer = tokenizer_of(Path(plan.target))
    if why := prompts.stretched(plan):
        yield Notice("warning", why)
    prepared = prompts.prepare(plan, request, tokenizer, cancelled)
    with timer.loading():
        session = yield from loading.load(plan)
        if prepared.grammar is not None:
            session.token_table  # noqa: B018  read here, while loading is timed
        costs = yield from loading.round_costs(plan, session, cancelled=cancelled)
        loaded = Loaded(session, costs, loading.prefix_cache(plan, session, warnings.append))
    ended = yield from _run(loaded, plan, request, prepared, timer, cancelled)
    yield from (Notice("warning", text) for text in warnings)
    if plan.costs == "afterwards" and not cancelled():
        # Where a constraint held, passes had to wait for masks.
        free = prepared.grammar is None and plan.settings["thinking_budget"] is None
        context = len(prepared.tokens) + len(ended.stats.completion) // 2
        passes = timer.passes if free else {}
        yield from loading.refine_costs(plan, loaded, passes, context, cancelled)
    tokenizers.keep(Path(plan.target))


def decode(
    loaded: Loaded, plan: Plan, request: Request, timer: PhaseTimer | None = None
) -> Iterator[Event]:
    """The lower step of `execute`, for token ids, over what the caller has loaded and admitted.
    Runs may take turns where each has a session of its own: a drafter serves one run."""
    assert request.tokens and request.max_tokens
    prepared = prompts.of_tokens(plan, request, request.max_tokens)
    yield from _run(loaded, plan, request, prepared, timer or PhaseTimer(), lambda: False)


def _run(
    loaded: Loaded,
    plan: Plan,
    request: Request,
    prepared: Prepared,
    timer: PhaseTimer,
    cancelled: Callable[[], bool],
) -> Generator[Event, None, Outcome]:
    session = loaded.session
    answer = _answer(session, plan, request, prepared)
    schema = _schema(session, prepared)
    run = session.run(
        engine.Request(
            prompt=prepared.tokens,
            max_tokens=prepared.max_tokens,
            eos=frozenset(() if prepared.ignore_eos else session.tokenizer.eos_token_ids),
            sampling=sampling(plan.settings),
            seed=plan.seed,
            ends_at=answer.feed,
            constraints=_constraints(session, plan, prepared, answer.section, schema),
            boundaries=prepared.boundaries,
        ),
        timer,
        draft_tokens=plan.settings["draft_tokens"],
        kv_bits=plan.settings["kv_bits"],
        costs=loaded.costs,
        history=plan.prior,
        prefix_cache=loaded.prefix_cache,
    )
    yield Started()
    with wired(), contextlib.closing(cast(Generator[list[int]], run.tokens())) as rounds:
        for tokens in rounds:
            yield from answer.events(tokens)
            if cancelled():
                break
    yield from answer.rest()
    ended = run.outcome
    if schema and (why := outcome.shortened(schema, ended, prepared.max_tokens, answer.stopped_by)):
        yield Notice("warning", why)
    kept_to = outcome.kept_to(schema, answer.stopped_by) if schema else None
    yield outcome.result(plan, prepared, ended, timer, answer.reasoning, kept_to)
    _keep(loaded, plan, ended)
    return ended


def _answer(session: Session, plan: Plan, request: Request, prepared: Prepared) -> Answer:
    sections = prepared.sections
    if sections is None:
        return TokenAnswer()
    detokenizer, stop = session.tokenizer.detokenizer, plan.settings["stop"]
    text = TextStream(detokenizer, stop, sections, prepared.opening)
    return TextAnswer(text, sections, request.tools, request.earlier_calls)


def _schema(session: Session, prepared: Prepared) -> GrammarConstraint | None:
    grammar = prepared.grammar
    return None if grammar is None else session.constraint(grammar, prepared.max_tokens)


def _constraints(
    session: Session,
    plan: Plan,
    prepared: Prepared,
    section: str,
    schema: GrammarConstraint | None,
) -> list[Constraint]:
    """section: what the answer begins with."""
    found: list[Constraint] = []
    sections, limit = prepared.sections or Sections(), plan.settings["thinking_budget"]
    if limit is not None and prepared.sections is not None:
        if not sections.think_end:
            raise UsageError("this model has no markers of thinking: unset thinking_budget")
        found.append(Budget(sections, section, limit, session.target.vocab_size))
    if schema is not None:
        thinks = section != TEXT or plan.settings["thinking"] != "off"
        if sections.think_end and thinks:
            found.append(AfterThinking(schema, sections, section))
        else:
            found.append(schema)
    return found


def _keep(loaded: Loaded, plan: Plan, ended: Outcome) -> None:
    """Keep the run's states: in memory, and on disk where llm logs what was said."""
    if loaded.prefix_cache is None or memory.of_states().nbytes < 2 * ended.state_bytes:
        return  # nowhere, or no room for copies of them
    for entry in ended.entries():
        loaded.prefix_cache.keep([entry])
        if plan.keeps_on_disk:
            loaded.prefix_cache.store([entry])


def sampling(values: Mapping[str, Any]) -> Sampling:
    """How the engine turns logits into tokens under these settings."""
    return Sampling(
        temperature=values["temperature"],
        top_p=values["top_p"],
        top_k=values["top_k"],
        min_p=values["min_p"],
        repetition_penalty=values["repetition_penalty"],
        presence_penalty=values["presence_penalty"],
        frequency_penalty=values["frequency_penalty"],
        penalty_scope=values["penalty_scope"],
        logit_bias={int(token): bias for token, bias in values["logit_bias"].items()},
    )
