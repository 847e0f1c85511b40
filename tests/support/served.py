"""A server on loopback that plays recorded answers, or breaks off as servers do."""

import contextlib
import json
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).parents[1] / "backends" / "served" / "answers"


def recorded(name):
    """An answer of a real server: status, headers, and its JSON, text or stream of events."""
    return json.loads((ANSWERS / f"{name}.json").read_text())


def events(name):
    return [line for _, line in recorded(name)["sse"] if line.startswith("data:")]


@dataclass
class Answer:
    """lines: events of a stream, with `pause` seconds before each; `cut` closes the connection
    without an end."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    lines: list[str] | None = None
    pause: float = 0.0
    cut: bool = False


def stream(lines, **changes):
    return Answer(headers={"Content-Type": "text/event-stream"}, lines=lines, **changes)


def plays(name, status=None):
    """The recorded answer, to be played again."""
    found = recorded(name)
    headers = {k: v for k, v in found["headers"].items() if k.lower() in ("server", "content-type")}
    if "sse" in found:
        return Answer(found["status"], headers=headers, lines=events(name))
    body = json.dumps(found["json"]).encode() if "json" in found else found["text"].encode()
    return Answer(status or found["status"], body, headers)


def chunk(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    whole = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return "data: " + json.dumps({**whole, "choices": [choice], **more})


class Server(ThreadingHTTPServer):
    """answers: path → what it answers. asked: bodies and headers of the requests that came;
    open: connections of streams that are being written."""

    daemon_threads = True

    def __init__(self, answers: dict[str, Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.gone = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        pass  # clients that go away are what is tested


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self._answer({})

    def do_POST(self):
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body):
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.path, body, headers))
        answer = self.server.answers.get(self.path, Answer(404, b"{}"))
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.lines is None:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.lines is None:
            self.wfile.write(answer.body)
            return
        self.close_connection = True
        try:
            for line in answer.lines:
                time.sleep(answer.pause)
                self.wfile.write(f"{line}\n\n".encode())
                self.wfile.flush()
        except OSError:
            self.server.gone.set()
        if answer.cut:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # on, no seconds: a reset, not an end
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(answers):
    # An llm prompt in this process leaves it ending on a closed pipe, as shells expect; here it
    # is the server that writes to clients that went away.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    server = Server(answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
