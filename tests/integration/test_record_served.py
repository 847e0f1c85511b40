"""Recording a server's answers: what is kept, and that a key is not."""

import json

from fixtures.loopback import Answer, chunk, serving, stream
from fixtures.record_served import record

KEY = "sk-very-secret"


def test_answers_are_kept_as_tests_play_them_and_no_key_is(tmp_path):
    lines = [chunk({"content": "Hi"}, "stop"), "data: [DONE]"]
    answers = {
        "/v1/models": Answer(200, b'{"data": [{"id": "smol"}]}', {"Server": "x", "Date": "now"}),
        "/version": Answer(401, f"wrong key {KEY}".encode()),
        "/v1/chat/completions": stream(lines),
    }
    with serving(answers) as server:
        names = record(server.url.removesuffix("/v1"), tmp_path, KEY)
    assert all(KEY in headers["authorization"] for _, _, headers in server.asked)
    kept = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in names}
    assert kept["01-models"]["headers"] == {"server": "x"}
    assert kept["09-version"]["text"] == "wrong key KEY"
    assert kept["04-stream-usage"]["request"]["body"]["model"] == "smol"
    assert [line for _, line in kept["04-stream-usage"]["sse"]] == lines
    assert not [path for path in tmp_path.iterdir() if KEY in path.read_text()]
