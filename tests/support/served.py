"""Recorded answers of real servers, to be played again."""

import json
from pathlib import Path

from fixtures.loopback import Answer

ANSWERS = Path(__file__).parents[1] / "backends" / "served" / "answers"


def recorded(name):
    """An answer of a real server: status, headers, and its JSON, text or stream of events."""
    return json.loads((ANSWERS / f"{name}.json").read_text())


def events(name):
    return [line for _, line in recorded(name)["sse"] if line.startswith("data:")]


def plays(name, status=None):
    """The recorded answer, to be played again."""
    found = recorded(name)
    headers = {k: v for k, v in found["headers"].items() if k.lower() in ("server", "content-type")}
    if "sse" in found:
        return Answer(found["status"], headers=headers, lines=events(name))
    body = json.dumps(found["json"]).encode() if "json" in found else found["text"].encode()
    return Answer(status or found["status"], body, headers)
