"""What a server, or the way to it, did wrong: one line each, which never holds the key."""

from collections.abc import Mapping
from typing import Any

import openai

from llm_specdec.errors import ContextError, ResourceError, SpecdecError, UsageError
from llm_specdec.pairings.registry import Served

QUOTED = 300  # characters of what a server said
PAGE = "a web page, as of a proxy"

# Words in which engines say that a prompt is too long: llama.cpp's type, vLLM's parameter, prose.
_TOO_LONG = ("exceed_context_size", "input_tokens", "context length", "context size", "too long")


def failure(error: openai.APIError, served: Served, model: str, key: str | None) -> SpecdecError:
    """Any error of the client, as ours."""
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        return unreachable(served, str(cause) or type(cause).__name__)
    if not isinstance(error, openai.APIStatusError):
        return ResourceError(
            f"{served.url} ended the answer with an error: {_said(error.body or error, key)}"
        )
    body = error.body if error.body is not None else error.response.text
    return refused(served, model, key, error.status_code, error.response.headers, body)


def refused(
    served: Served, model: str, key: str | None, status: int, headers: Mapping[str, str], body: Any
) -> SpecdecError:
    """An answer that says that there is none. body: as JSON, or text where it is not."""
    said, url = _said(body, key), served.url
    whole = f"{said} {body}".lower()
    match status:
        case _ if 300 <= status < 400:
            where = _said(headers.get("location", ""), key)
            return ResourceError(
                f"{url} sends on to {where} ({status}), where nothing is asked: if that is the "
                "server, add it by that address"
            )
        case 401 | 403 if served.key:
            return UsageError(f"{url} refuses the key {served.key} ({status}): {said}")
        case 401 | 403:
            return UsageError(
                f"{url} wants a key ({status}): llm keys set NAME, then add it anew with --force "
                "and --key NAME"
            )
        case 404 | 405 if said == PAGE:
            return ResourceError(f"{url} answers {status} with {PAGE}: is the address right?")
        case 404:
            return UsageError(f"{url} does not serve {model} (404): {said}")
        case 400 | 413 if status == 413 or any(words in whole for words in _TOO_LONG):
            return ContextError(f"the prompt is too long for {url} ({status}): {said}: shorten it")
        case 429:
            after = headers.get("retry-after")
            when = f"in {after} s" if after and after.isdigit() else "later"
            return ResourceError(f"{url} has too much to do (429): try again {when}")
        case 503:
            return ResourceError(f"{url} is not ready (503): {said}: try again later")
        case _ if status >= 500:
            return ResourceError(f"{url} failed ({status}): {said}")
    return UsageError(f"{url} refuses the request ({status}): {said}")


def unreachable(served: Served, why: str) -> ResourceError:
    return ResourceError(f"{served.url} cannot be reached ({why}): is the server running?")


def no_stream(served: Served, kind: str) -> ResourceError:
    return ResourceError(
        f"{served.url} answered with {kind or 'something unnamed'}, not with a stream of events: "
        "is the address right, or is there a proxy on the way?"
    )


def broken(served: Served, why: str) -> ResourceError:
    return ResourceError(f"{served.url}: the answer broke off: {why}: ask again")


def _said(body: Any, key: str | None) -> str:
    """The server's own words, from whichever place its engine puts them."""
    while isinstance(body, dict):
        body = next((body[k] for k in ("error", "detail", "message", "msg") if body.get(k)), "")
    if isinstance(body, list):
        return _said(body[0] if body else "", key)
    text = str(body).strip() or "it gives no reason"
    if text.startswith("<"):
        return PAGE
    text = text.replace(key, "…") if key else text
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"
