"""Recording a server's answers: what is kept, and that a key is not."""

import yaml

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
        names = record(server.url.removesuffix("/v1"), tmp_path, KEY)  # anew, over the first
    assert all(KEY in headers["authorization"] for _, _, headers in server.asked)
    kept = {name: yaml.safe_load((tmp_path / f"{name}.yaml").read_text()) for name in names}
    exchanges = {name: found["interactions"][0] for name, found in kept.items()}
    assert exchanges["01-models"]["response"]["headers"] == {"server": ["x"]}
    assert exchanges["09-version"]["response"]["body"]["string"] == "wrong key KEY"
    asked = exchanges["04-stream-usage"]["request"]
    assert (asked["uri"], '"model":"smol"' in asked["body"]) == (
        "http://server/v1/chat/completions", True,
    )  # fmt: skip
    answer = exchanges["04-stream-usage"]["response"]["body"]["string"]
    assert answer == "".join(f"{line}\n\n" for line in lines)
    files = [*tmp_path.iterdir()]
    assert len(files) == len(names) and not [p for p in files if KEY in p.read_text()]
