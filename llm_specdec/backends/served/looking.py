"""Looking at what a server has beside OpenAI's API, with the HTTP client underneath OpenAI's."""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from llm_specdec.backends.served import keys
from llm_specdec.pairings.registry import Served

SECONDS = 5.0  # for each look
MOST = 4 << 20  # bytes of an answer


@dataclass(frozen=True)
class Found:
    status: int
    headers: httpx2.Headers
    text: str

    @property
    def json(self) -> Any:
        """None where it is no JSON."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


@contextlib.contextmanager
def client(served: Served) -> Iterator[httpx2.Client]:
    """With the server's key. It goes to no other address. Raises UsageError."""
    with openai.DefaultHttpxClient(
        timeout=SECONDS, headers=keys.headers(served), follow_redirects=False
    ) as found:
        yield found


def look(client: httpx2.Client, url: str) -> Found:
    """Raises httpx2.HTTPError, where the answer takes too long or has no end, too."""
    deadline, body = time.monotonic() + SECONDS, b""
    with client.stream("GET", url) as answer:
        for part in answer.iter_bytes():
            body += part
            if time.monotonic() > deadline or len(body) > MOST:
                raise httpx2.ReadTimeout("its answer does not end")
        return Found(answer.status_code, answer.headers, body.decode("utf-8", "replace"))
