"""What the way to a server costs and keeps: `python -m benchmarks.served [PART ...]`.

overhead   an answer of 400 tokens from a loopback server that is as fast as it can be, by `execute`
           and by the bare `openai` client, in turn
texts      the same profile by MLX here and by mlx_lm.server: greedy texts of 20 prompts
cancel     200 requests cancelled at random moments: connections that stay open afterwards
key        a prompt with a key: every file that was written is searched for it
"""

import argparse
import contextlib
import functools
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import psutil

from benchmarks import harness
from fixtures.loopback import Server, chunk, serving, stream
from llm_specdec.backends import Plan, Request, Result, Text, execute, plan
from llm_specdec.pairings.registry import Pairing, Served
from llm_specdec.settings import resolve

TOKENS = 400
MORE = ["Name three rivers.", "Why is the sea salt?", "Write a haiku about rain."]
MLX_LM_SERVER = "import llm_specdec.engine, mlx_lm.server as server; server.main()"
KEY = "sk-benchmark-of-a-key-that-is-nobodys"


def overhead() -> None:
    lines = [chunk({"content": f"w{i} "}) for i in range(TOKENS)]
    usage = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": TOKENS + 9}
    lines += [chunk({}, "stop"), chunk({}, None, usage=usage), "data: [DONE]"]
    with serving({"/v1/chat/completions": stream(lines, pause=0.002)}) as server:
        ours, bare = _ours(server), _bare(server)
        pairs = [(ours(), bare()) for _ in range(12)][1:]
    ratios = [a / b for a, b in pairs]
    more = [1000 * (a - b) / TOKENS for a, b in pairs]
    print(f"  wall ÷ bare client's: {statistics.median(ratios):.3f} (at most 1.02)")
    print(f"  more per token: {statistics.median(more):.3f} ms (at most 1)")


def _ours(server: Server) -> Callable[[], float]:
    ready = _plan(server.url, "openai")

    def ask() -> float:
        start = time.perf_counter()
        text = "".join(e.text for e in execute(ready, _hello(), _never) if isinstance(e, Text))
        assert text.count("w") == TOKENS
        return time.perf_counter() - start

    return ask


def _bare(server: Server) -> Callable[[], float]:
    def ask() -> float:
        start = time.perf_counter()
        with openai.OpenAI(api_key="none", base_url=server.url) as client:
            answer = client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "hello"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            text = "".join(c.choices[0].delta.content or "" for c in answer if c.choices)
        assert text.count("w") == TOKENS
        return time.perf_counter() - start

    return ask


def texts() -> None:
    settings = {"max_tokens": 24, "repetition_penalty": 1.1, "penalty_scope": "mlx"}
    target = str(harness.models() / "smollm2")
    with _mlx_lm(target) as url:
        there = _plan(url, "mlx-lm", "default_model", **settings)
        pairing = Pairing("here", target)
        here = plan(pairing, None, resolve(pairing, options=settings))
        asked = [p.text for p in harness.prompts(("explain", "code", "prose", "copy"))] + MORE
        equal = 0
        for text in asked:
            request = Request(messages=[{"role": "user", "content": text}])
            a, b = (_said(each, request) for each in (here, there))
            equal += a == b
            if a != b:
                print(f"  differ on {text[:40]!r}: {a[:60]!r} and {b[:60]!r}")
        print(f"  equal texts: {equal} of {len(asked)}")


@contextlib.contextmanager
def _mlx_lm(target: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--model", target, "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-c", MLX_LM_SERVER, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def cancel() -> None:
    lines = [chunk({"content": "word "}) for _ in range(2000)]
    chosen, states = random.Random(0), dict[str, int]()
    with serving({"/v1/chat/completions": stream(lines, pause=0.002)}) as server:
        ready = _plan(server.url, "openai")
        for _ in range(200):
            end = time.monotonic() + chosen.uniform(0.0, 0.05)
            events = execute(ready, _hello(), functools.partial(_is_over, end))
            result = next(event for event in events if isinstance(event, Result))
            states[result.finish_reason] = states.get(result.finish_reason, 0) + 1
        time.sleep(0.5)
        mine = psutil.Process().net_connections("tcp")
        port = server.server_address[1]
        still = [c for c in mine if c.raddr and c.raddr.port == port and c.status == "ESTABLISHED"]
    print(f"  ended as {states}; connections that are still open: {len(still)}")


def key() -> None:
    answers = {
        "/v1/models": stream([]),
        "/v1/chat/completions": stream([chunk({"content": "hi"}, "stop"), "data: [DONE]"]),
    }
    with tempfile.TemporaryDirectory() as folder, serving(answers) as server:
        environment = {**os.environ, "LLM_USER_PATH": folder}

        def llm(*words: str, given: str | None = None) -> None:
            command = [sys.executable, "-m", "llm", *words]
            subprocess.run(command, env=environment, input=given, text=True, capture_output=True)

        llm("keys", "set", "there", given=f"{KEY}\n")
        llm("specdec", "add", "big", "--served", server.url, "--key", "there", "--target", "m")
        llm("-m", "big", "hello")
        llm("specdec", "doctor", "--json")
        sent = sum(KEY in headers.get("authorization", "") for _, _, headers in server.asked)
        found = [
            str(path.relative_to(folder))
            for path in Path(folder).rglob("*")
            if path.is_file() and KEY.encode() in path.read_bytes()
        ]
    print(f"  sent {sent} times; files that hold it: {found} (keys.json alone, llm's own)")


def _plan(url: str, engine: str, target: str = "m", **settings: Any) -> Plan:
    pairing = Pairing("there", target, served=Served(url, engine))
    return plan(pairing, None, resolve(pairing, options=settings))


def _said(given: Plan, request: Request) -> str:
    return "".join(e.text for e in execute(given, request, _never) if isinstance(e, Text))


def _hello() -> Request:
    return Request(messages=[{"role": "user", "content": "hello"}])


def _is_over(end: float) -> bool:
    return time.monotonic() > end


def _never() -> bool:
    return False


PARTS = {part.__name__: part for part in (overhead, texts, cancel, key)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", default=[*PARTS], metavar="PART", help=", ".join(PARTS))
    for name in parser.parse_args().parts:
        print(f"{name}:")
        PARTS[name]()


if __name__ == "__main__":
    main()
