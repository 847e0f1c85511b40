"""`execute` by way of a server, with the client that llm brings.

Nothing is sent twice: only a connection that failed before anything was sent is tried again.
"""

import contextlib
import json
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

import openai
from openai.types.chat import ChatCompletionChunk

from llm_specdec import __version__
from llm_specdec.backends.events import (
    Event,
    Notice,
    Reasoning,
    Request,
    Started,
    Text,
    ToolCall,
)
from llm_specdec.backends.planning import Plan, effective
from llm_specdec.backends.served import asking, failures, figures, keys, tokenizers
from llm_specdec.backends.served.engines import ENGINES
from llm_specdec.backends.served.waiting import Cancelled, Waiting
from llm_specdec.errors import ResourceError
from llm_specdec.pairings.registry import Served
from llm_specdec.receipts import COUNTS, SERVED, Lane, Result

CONNECT, FIRST, NEXT = 10.0, 1800.0, 300.0  # seconds: to connect, to the first chunk, to a further
TRIES, PAUSE = 3, 0.5  # of a connection that fails; seconds between two

Stream = openai.AsyncStream[ChatCompletionChunk]


def execute(
    plan: Plan, request: Request, cancelled: Callable[[], bool]
) -> Generator[Event, None, None]:
    """See `backends.execute`."""
    assert plan.served
    counted = tokenizers.counted(plan, request)
    asked = asking.body(plan, request, ENGINES[plan.served.engine], counted)
    connection = _Connection(plan.served, plan.target, cancelled)
    answer = _Answer(plan.served)
    with contextlib.closing(connection):
        try:
            connection.ask(asked)
            yield Started()
            while (chunk := connection.next()) is not None:
                yield from answer.feed(chunk)
            yield from answer.rest()
        except Cancelled:
            answer.finish_reason = "interrupted"
    if not connection.began:
        yield Started()
    there = answer.prompt_tokens
    if counted and there and there != counted and plan.served.tokenizer:
        yield Notice("warning", tokenizers.differ(plan.served.tokenizer, counted, there))
    if request.schema is not None and not answer.is_json():
        yield Notice("warning", "the JSON is cut and not valid")
    yield answer.result(plan, request)


class _Connection:
    """One request and the stream that answers it."""

    def __init__(self, served: Served, model: str, cancelled: Callable[[], bool]) -> None:
        self._served, self._model, self._key = served, model, keys.key_of(served)
        self._waiting = Waiting(cancelled)
        self._client = openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=served.url,
            timeout=openai.Timeout(None, connect=CONNECT),
            max_retries=0,
            # Neither key nor prompt go to another place than the one that was named.
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )
        self._stream: Stream | None = None
        self._limit = FIRST

    @property
    def began(self) -> bool:
        return self._stream is not None

    def ask(self, body: dict[str, Any]) -> None:
        """Raises SpecdecError, Cancelled."""
        for left in reversed(range(TRIES)):
            try:
                self._stream = self._result(self._create(body))
                break
            except _NotConnected:
                if not left:
                    raise
                time.sleep(PAUSE)
        assert self._stream
        kind = self._stream.response.headers.get("content-type", "")
        if "text/event-stream" not in kind:
            raise failures.no_stream(self._served, kind)

    def next(self) -> ChatCompletionChunk | None:
        """The next chunk; None at the end. Raises SpecdecError, Cancelled."""
        assert self._stream
        chunk: ChatCompletionChunk | None = self._result(_next(self._stream))
        self._limit = NEXT
        return chunk

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the other end may be gone
            self._waiting.end(self._shut())
        self._waiting.close()

    async def _shut(self) -> None:
        if self._stream:
            await self._stream.close()
        await self._client.close()

    async def _create(self, body: dict[str, Any]) -> Stream:
        """Everything as it stands in the body: the client knows fewer words than the engines."""
        whole: Any = {"extra_body": body, "extra_headers": _headers(self._key)}
        stream: Stream = await self._client.chat.completions.create(
            model=body["model"], messages=body["messages"], stream=True, **whole
        )
        return stream

    def _result(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._waiting.result(work, self._limit)
        except TimeoutError:
            raise failures.broken(self._served, f"nothing came for {self._limit:.0f} s") from None
        except openai.APIConnectionError as error:
            found = failures.failure(error, self._served, self._model, self._key)
            if self.began:
                raise failures.broken(self._served, str(error.__cause__ or error)) from error
            raise (_NotConnected if _unsent(error) else ResourceError)(str(found)) from error
        except openai.APIError as error:
            raise failures.failure(error, self._served, self._model, self._key) from error
        except (OSError, ValueError, TypeError, AttributeError) as error:  # what is no chunk
            raise failures.broken(self._served, f"not what was expected ({error})") from error
        except Exception as error:  # the transport's own errors, of a stream that was cut
            if type(error).__module__.partition(".")[0] in ("httpx2", "httpcore2"):
                raise failures.broken(self._served, str(error) or "cut") from error
            raise


class _NotConnected(ResourceError):
    """Nothing was sent."""


def _unsent(error: openai.APIConnectionError) -> bool:
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")


def _headers(key: str | None) -> dict[str, Any]:
    """No organisation or project of another service, and no key where there is none."""
    omitted = ["OpenAI-Organization", "OpenAI-Project", *([] if key else ["Authorization"])]
    return {name: openai.Omit() for name in omitted}


async def _next(stream: Stream) -> ChatCompletionChunk | None:
    return await anext(stream, None)


class _Answer:
    """What came so far. Chunks are no tokens: some engines send a whole round at once."""

    def __init__(self, served: Served) -> None:
        self.finish_reason: str | None = None
        self._served = served
        self._began, self._first, self._last = time.monotonic(), 0.0, 0.0
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._tokens = _tokens(None)
        self._records: dict[str, Any] = {}
        self._fingerprint = ""

    def feed(self, chunk: ChatCompletionChunk) -> list[Event]:
        """Raises ResourceError for what is no chunk: the client does not check."""
        try:
            return list(self._events(chunk))
        except (AttributeError, TypeError, ValueError) as error:
            raise failures.broken(self._served, f"not what was expected ({error})") from error

    def _events(self, chunk: ChatCompletionChunk) -> Iterator[Event]:
        self._last = time.monotonic()
        extra = chunk.model_extra or {}
        self._records |= {name: extra[name] for name in figures.RECORDS if extra.get(name)}
        if chunk.usage:
            self._tokens = _tokens(chunk.usage)
            self._records[figures.USAGE] = chunk.usage.model_extra or {}
        self._fingerprint = chunk.system_fingerprint or self._fingerprint
        for choice in (chunk.choices or [])[:1]:
            if choice.delta:
                yield from self._delta(choice.delta)
            self.finish_reason = _REASONS.get(choice.finish_reason or "", self.finish_reason)

    def _delta(self, delta: Any) -> Iterator[Event]:
        more = delta.model_extra or {}
        reasoning = more.get("reasoning_content") or more.get("reasoning")
        if reasoning or delta.content or delta.tool_calls:
            self._first = self._first or self._last
        if reasoning:
            yield Reasoning(reasoning)
        if delta.content:
            self._text.append(delta.content)
            yield Text(delta.content)
        for part in delta.tool_calls or ():
            call = self._calls.setdefault(part.index or 0, {"id": "", "name": "", "arguments": ""})
            call["id"] = part.id or call["id"]
            if part.function:
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""

    def rest(self) -> Iterator[Event]:
        """Whole calls. Raises ResourceError for a stream that ended in the middle."""
        if self.finish_reason is None:
            raise failures.broken(self._served, "the stream ended before the answer did")
        for number, call in enumerate(self._calls.values()):
            if _is_call(call):
                arguments = call["arguments"] or "{}"
                yield ToolCall(call["name"], arguments, call["id"] or f"call{number}")
            else:  # no use to anyone as a call, but it is what the model said
                yield Notice("warning", "a tool call could not be read, and is shown as text")
                yield Text(f"{call['name']} {call['arguments']}")

    @property
    def prompt_tokens(self) -> int | None:
        return self._tokens["prompt_tokens"]

    def is_json(self) -> bool:
        try:
            json.loads("".join(self._text))
        except ValueError:
            return False
        return True

    def result(self, plan: Plan, request: Request) -> Result:
        found = figures.of(self._served.engine, self._records)
        end = time.monotonic() if self.finish_reason == "interrupted" else self._last
        told = {**self._tokens, **figures.counts(found)}
        counts: Any = {name: count or 0 for name, count in told.items()}
        schema = {"kind": "schema", "complete": self.is_json(), "ended_early": False}
        return Result(
            version=__version__,
            pairing=plan.pairing,
            profile=plan.profile,
            lane=Lane(SERVED, figures.state(found), plan.lane.reason),
            completion_ids=(),
            ttft_ms=1000 * ((self._first or end) - self._began),
            wall_ms=1000 * (end - self._began),
            finish_reason=self.finish_reason or "stop",
            by_position=found.by_position,
            sampling=effective(plan.settings),
            deviations=plan.deviations,
            constraint=schema if request.schema is not None else None,
            engine={
                "name": self._served.engine,
                "version": self._version(),
                "method": found.method,
                "reported_ms": dict(found.reported_ms),
            },
            untold=[name for name in COUNTS if told[name] is None],
            **counts,
        )

    def _version(self) -> str | None:
        """As the answer says it, else as it was when the pairing was added."""
        from llm_specdec.backends.served.detection import version_in

        return version_in(self._served.engine, self._fingerprint) or self._served.version


def _tokens(usage: Any) -> dict[str, int | None]:
    """By the server's count; None for what it does not tell."""
    if usage is None:
        names = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
        return dict.fromkeys(names)
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    more = usage.model_extra or {}
    found = {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": prompt.cached_tokens if prompt else more.get("cached_tokens"),
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": completion.reasoning_tokens if completion else None,
    }
    return {name: figures.count(value) for name, value in found.items()}


_REASONS = {
    "length": "length",
    **dict.fromkeys(("stop", "tool_calls", "function_call", "content_filter"), "stop"),
}


def _is_call(call: dict[str, str]) -> bool:
    try:
        return bool(call["name"]) and isinstance(json.loads(call["arguments"] or "{}"), dict)
    except ValueError:
        return False
