"""A small local server that serves repositories in the hub's HTTP shape, for recording.

`python -m tests.support.hub_server` runs the tests of tests/test_hub.py against it, with the real
client, and writes their cassettes anew. Replay needs no server.
"""

import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

PORT = 8917
ENDPOINT = f"http://127.0.0.1:{PORT}"

REPOS = {
    "acme/wren-1b": {
        "README.md": "# Wren 1B\n\nWe recommend `temperature=0.7` and `top_p=0.9`.\n",
        "generation_config.json": '{"temperature": 0.7}',
        "config.json": '{"model_type": "llama"}',
    },
    "lab/wren-1b-4bit": {
        "README.md": "---\nbase_model: acme/wren-1b\n---\n# Wren 1B, 4 bit\n",
        "config.json": '{"model_type": "llama"}',
        "model.safetensors": "not really weights",
        "run.py": "print('never fetched')",
    },
    "lab/orphan-1b": {
        "README.md": "---\nbase_model: [acme/gone-1b, acme/wren-old]\n---\n# Orphan 1B\n",
        "generation_config.json": '{"temperature": 0.3,}',
    },
    "lab/gated-1b": {"README.md": "# Gated 1B\n"},
}
RENAMED = {"acme/wren-old": "acme/wren-1b"}
GATED = {"lab/gated-1b"}


def commit_of(repo):
    return hashlib.sha1(repo.encode()).hexdigest()


def etag_of(text):
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        parts = unquote(self.path.split("?")[0]).strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self.api("/".join(parts[2:4]), parts[4:])
        elif len(parts) > 4 and parts[2] == "resolve":
            self.file("/".join(parts[:2]), "/".join(parts[4:]))
        else:
            self.send(404, {})

    def api(self, repo, rest):
        if repo in RENAMED:
            self.send(307, {"Location": "/".join(["/api/models", RENAMED[repo], *rest])})
        elif repo not in REPOS:
            self.missing()
        elif rest[:1] == ["tree"]:
            tree = [
                {"type": "file", "path": name, "size": len(text.encode()), "oid": etag_of(text)}
                for name, text in REPOS[repo].items()
            ]
            self.json(tree)
        else:
            siblings = [{"rfilename": name} for name in REPOS[repo]]
            self.json(
                {"_id": commit_of(repo), "id": repo, "modelId": repo, "sha": commit_of(repo),
                 "private": False, "gated": "manual" if repo in GATED else False,
                 "tags": [], "downloads": 0, "likes": 0, "siblings": siblings}
            )  # fmt: skip

    def file(self, repo, name):
        if repo in GATED:
            self.send(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Ask for access."})
        elif name not in REPOS.get(repo, {}):
            self.missing()
        else:
            text = REPOS[repo][name]
            headers = {"X-Repo-Commit": commit_of(repo), "ETag": f'"{etag_of(text)}"'}
            self.send(200, headers, text.encode())

    def missing(self):
        self.send(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})

    def json(self, data):
        self.send(200, {"Content-Type": "application/json"}, json.dumps(data).encode())

    def send(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def record():
    import pytest

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tests = Path(__file__).parents[1] / "test_hub.py"
    status = pytest.main([str(tests), "-q", "--record-mode=rewrite"])
    server.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(record())
