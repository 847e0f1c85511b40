"""Recorded answers of servers, to be played again; see `cassettes/README.md` there."""

from functools import cache
from pathlib import Path

import yaml

from fixtures.loopback import Answer

CASSETTES = Path(__file__).parents[1] / "backends" / "served" / "cassettes"


def cassette(name):
    return CASSETTES / f"{name}.yaml"


@cache
def recorded(name):
    """What a server answered: status, headers, and the text of its body."""
    (exchange,) = yaml.safe_load(cassette(name).read_text())["interactions"]
    response = exchange["response"]
    headers = {key: values[0] for key, values in response["headers"].items()}
    return response["status"]["code"], headers, response["body"]["string"]


def text(name):
    return recorded(name)[2]


def events(name):
    return [line for line in text(name).split("\n\n") if line.startswith("data:")]


def plays(name):
    """The recorded answer, for a server on loopback."""
    code, headers, body = recorded(name)
    if "text/event-stream" in headers["content-type"]:
        return Answer(code, headers=headers, lines=events(name))
    return Answer(code, body.encode(), headers)
