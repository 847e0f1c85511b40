"""A plan and a request as the body that is sent, in the engine's own words."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from llm_specdec.backends.events import Request
from llm_specdec.backends.planning import Plan
from llm_specdec.backends.served import tokenizers
from llm_specdec.backends.served.engines import ANSWER, PENALTIES, Engine
from llm_specdec.errors import ContextError, UsageError
from llm_specdec.settings import SETTINGS

# These are not sent as they stand: see the functions below, and `adapter.events` for `system`.
_APART = {
    *PENALTIES,
    "penalty_scope", "system", "thinking", "chat_template_kwargs", "draft", "draft_tokens",
    "prefix_cache",
}  # fmt: skip


def body(
    plan: Plan, request: Request, engine: Engine, prompt_tokens: int | None = None
) -> dict[str, Any]:
    """prompt_tokens: where they were counted, for the context setting.

    Raises UsageError for whatever the engine cannot honour; nothing is dropped. ContextError for
    a prompt that leaves no room for an answer.
    """
    if request.tokens or request.ignore_eos:
        raise UsageError(f"{plan.model_id} is served: it takes messages, not token ids")
    if not any(_says_something(message) for message in request.messages):
        raise UsageError("the prompt is empty: give some text")
    asked = {
        "model": plan.target,
        "messages": [_message(message, engine) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **engine.extra,
        **dict(_settings(plan, engine)),
        **_penalties(plan, engine),
        **_template(plan, engine),
        **_drafting(plan, engine),
    }
    if request.max_tokens:
        asked["max_tokens"] = request.max_tokens
    if prompt_tokens is not None:
        room = _room(plan, prompt_tokens)
        asked["max_tokens"] = min(room, asked.get("max_tokens", room))
    if request.tools:
        asked["tools"] = list(request.tools)
    if request.schema is not None:
        asked["response_format"] = _response_format(plan, request, engine)
    return asked


def _settings(plan: Plan, engine: Engine) -> Iterator[tuple[str, Any]]:
    for name, value in plan.settings.items():
        if name in _APART or (name == "context" and _has_tokenizer(plan)):
            continue
        usual = value == SETTINGS[name].default
        # The default of temperature elsewhere is not 0.
        wanted = engine.explicit or not usual or name == "temperature"
        if name in engine.words and value not in (None, [], {}) and wanted:
            yield engine.words[name], _as_sent(plan, engine, name, value)
        elif not usual:
            why = "unset it, or add the pairing with --tokenizer" if name == "context" else ""
            raise _cannot(plan, engine, name, why)


def _as_sent(plan: Plan, engine: Engine, name: str, value: Any) -> Any:
    if name == "seed" and value > engine.largest_seed:
        raise _cannot(plan, engine, name, f"the largest it takes is {engine.largest_seed}")
    return engine.top_k_off if name == "top_k" and value == 0 else value


def _penalties(plan: Plan, engine: Engine) -> dict[str, Any]:
    """What counts is sent along; neutral ones only where the server's defaults may be others."""
    scope, found = plan.settings["penalty_scope"], dict[str, Any]()
    for name, neutral in PENALTIES.items():
        value, ways = plan.settings[name], engine.penalties.get(name, {})
        if value != neutral:
            if not ways:
                raise _cannot(plan, engine, name)
            if scope not in ways:
                raise _cannot(plan, engine, name, _counts(next(iter(ways))))
            found |= ways[scope]
        if value != neutral or (ways and engine.sends_neutral):
            found[engine.words.get(name, name)] = value
    return found


def _counts(scope: str) -> str:
    if scope == ANSWER:
        return "it counts over the answer alone; unset it"
    return f"it counts otherwise; set penalty_scope={scope}"


def _template(plan: Plan, engine: Engine) -> dict[str, Any]:
    thinking, extra = plan.settings["thinking"], plan.settings["chat_template_kwargs"]
    if not (thinking or extra):
        return {}
    if not engine.template:
        raise _cannot(plan, engine, "thinking" if thinking else "chat_template_kwargs")
    known = tokenizers.template_words(plan) if _has_tokenizer(plan) else _usual_words(plan)
    return {"chat_template_kwargs": known} if known else {}


def _usual_words(plan: Plan) -> dict[str, Any]:
    """As most templates have them; whether the model's own does is not known."""
    found, thinking = dict(plan.settings["chat_template_kwargs"]), plan.settings["thinking"]
    if thinking in ("on", "off"):
        return {**found, "enable_thinking": thinking == "on"}
    return {**found, "reasoning_effort": thinking} if thinking else found


def _has_tokenizer(plan: Plan) -> bool:
    return bool(plan.served and plan.served.tokenizer)


def _room(plan: Plan, prompt_tokens: int) -> int:
    """Tokens that the answer may have."""
    context = plan.settings["context"]
    if (room := context - prompt_tokens) < 1:
        raise ContextError(
            f"the prompt has {prompt_tokens} tokens, the context of {plan.model_id} {context} "
            f"({plan.sources['context']}): shorten it, or raise the setting"
        )
    return int(room)


def _drafting(plan: Plan, engine: Engine) -> dict[str, Any]:
    """Drafting is the server's own affair, but where the engine lets a request say more."""
    draft, tokens = plan.settings["draft"], plan.settings["draft_tokens"]
    found: dict[str, Any] = {}
    if not draft or tokens != "auto":
        if engine.draft_length is None:
            name = "draft_tokens" if draft else "draft"
            raise _cannot(plan, engine, name, "drafting is set where the server is started")
        found[engine.draft_length] = tokens if draft else 0
    if not plan.settings["prefix_cache"]:
        if engine.cache_off is None:
            raise _cannot(plan, engine, "prefix_cache")
        found |= engine.cache_off
    return found


def _response_format(plan: Plan, request: Request, engine: Engine) -> dict[str, Any]:
    if not engine.schema:
        raise UsageError(f"{engine.name} keeps to no schema: ask {plan.model_id} without --schema")
    if request.tools:
        raise UsageError("tools and a schema at once cannot be kept to: leave one out")
    schema = {"name": "answer", "schema": request.schema, "strict": True}
    return {"type": "json_schema", "json_schema": schema}


def _says_something(message: Mapping[str, Any]) -> bool:
    return bool((message["content"] or "").strip() or message.get("images"))


def _message(message: Mapping[str, Any], engine: Engine) -> dict[str, Any]:
    """As OpenAI's API has it: arguments of calls are text, thinking has a name of its own,
    pictures make the content a list."""
    found = {key: message[key] for key in ("role", "content", "tool_call_id") if key in message}
    if images := message.get("images"):
        text = [{"type": "text", "text": found["content"]}] if found["content"] else []
        seen = [{"type": "image_url", "image_url": {"url": url}} for url in images]
        found["content"] = [*text, *seen]
    if engine.template and message.get("reasoning"):
        found["reasoning_content"] = message["reasoning"]
    if calls := message.get("tool_calls"):
        found["tool_calls"] = [_call(call) for call in calls]
    return found


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {
        **call,
        "function": {"name": function["name"], "arguments": json.dumps(function["arguments"])},
    }


def _cannot(plan: Plan, engine: Engine, name: str, why: str = "") -> UsageError:
    source = plan.sources.get(name, "")
    return UsageError(
        f"{engine.name} cannot honour {name} {json.dumps(plan.settings[name])}"
        f"{f' ({source})' if source else ''}: {why or 'unset it'}"
    )
