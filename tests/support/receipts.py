"""Runs with known figures, a model that logs a receipt through llm itself, and receipts read."""

import dataclasses
import json
import sqlite3

import llm

from llm_specdec.receipts import Lane, Result, payload

# The founding note's run: 181 tokens, 16.03 s, of which 10.97 s prefill.
SEED = Result(
    version="0.1.0",
    pairing="qwen",
    profile=None,
    lane=Lane("dflash", "drafting"),
    prompt_tokens=2150,
    cached_tokens=0,
    completion_ids=list(range(181)),
    ttft_ms=10970.8,
    wall_ms=16026.667,
    finish_reason="stop",
    phases_ms={
        "load": 900.0,
        "prefill": 10970.8,
        "draft": 232.9,
        "verify": 244.8,
        "replay": 24.1,
        "commit": 49.2,
    },
    rounds=50,
    drafted=177,
    accepted=131,
    by_length=[0, 10, 10, 10, 7, 13],
    by_position=[45, 35, 25, 16, 10],
    synced_rounds=8,
    sync_every=16,
    sampling={"temperature": 0.0},
)


def run(**changes):
    return dataclasses.replace(SEED, **changes)


def specdec(**changes):
    return payload(run(**changes))


class Logging(llm.Model):
    """Answers with `text` and logs `receipt`, as the real model does."""

    can_stream = True

    def __init__(self, model_id, receipt, text="yes"):
        self.model_id, self.receipt, self.text = model_id, receipt, text

    def execute(self, prompt, stream, response, conversation):
        yield self.text
        response.response_json = self.receipt


def log(path, model_id="qwen", prompt="hello", text="yes", **changes):
    """Log one run in the database at `path`; returns its turn id."""
    import sqlite_utils

    receipt = {"specdec": specdec(**changes)}
    response = Logging(model_id, receipt, text).prompt(prompt)
    response.text()
    response.log_to_db(sqlite_utils.Database(path))
    return response.id


def receipt_of(response):
    """The receipt of a response, which is read to its end."""
    response.text()
    logged = response.response_json
    assert logged is not None
    return logged["specdec"]


def logged_receipts():
    """The receipts in llm's log, oldest first."""
    with sqlite3.connect(llm.user_dir() / "logs.db") as db:
        rows = db.execute("select response_json from turns order by id").fetchall()
    return [json.loads(row[0])["specdec"] for row in rows]
