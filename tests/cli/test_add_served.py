"""A served pairing on the command line."""

import asyncio
import copy
import json
import re
import shlex
import signal
import subprocess
import threading
from base64 import b64encode
from dataclasses import replace

import llm
import pytest

from fixtures.loopback import Answer, chunk, serving, stream
from llm_specdec.pairings import registry
from tests.support import chains
from tests.support.command_line import LLM, run, specdec, write_registry
from tests.support.receipts import log, logged_receipts
from tests.support.served import plays

KEY = "sk-very-secret"
PICTURE = b"\x89PNG\r\n\x1a\n and the rest"
ANSWERS = {
    "/v1/models": plays("vllm/01-models"),
    "/version": plays("vllm/09-version"),
    "/v1/chat/completions": plays("vllm/04-stream-usage"),
}


@pytest.fixture
def server():
    with serving(copy.deepcopy(ANSWERS)) as found:
        yield found


def test_add_says_what_it_found_and_what_it_will_tell(server):
    said = specdec("add", "big", "--served", server.url, "--alias", "b").printed
    assert f"big: smol on vllm 0.32.0 at {server.url}" in said
    assert "engine vllm (by its models' owned_by: vllm); it does not say if it drafts" in said
    assert "--per-request-spec-decode-metrics" in said
    pairing = registry.load().pairing("b")
    assert (pairing.target, pairing.served) == (
        "smol",
        registry.Served(server.url, "vllm", "0.32.0"),
    )


def test_v1_may_be_left_out(server):
    specdec("add", "big", "--served", server.url.removesuffix("/v1"))
    served = registry.load().pairing("big").served
    assert served is not None and served.url == server.url


def test_a_prompt_leaves_a_receipt_with_the_servers_figures(server):
    specdec("add", "big", "--served", server.url)
    assert run("-m", "big", "hello").printed.startswith("The quick brown fox")
    (receipt,) = logged_receipts()
    assert receipt["draft"]["accepted"] == 17
    assert receipt["engine"]["name"] == "vllm"
    line = specdec("logs").printed
    assert "acceptance 70.8% of drafted" in line and "vllm 0.32.0" in line
    assert "served" in specdec("logs", "--table").printed
    assert "served" in specdec("logs", "--stats").printed
    assert specdec("logs", "--lane", "served").printed == line
    assert json.loads(specdec("cache", "status", "--json").printed)["pairings"] == []


def test_settings_and_profiles_are_as_of_any_pairing(server):
    specdec("add", "big", "--served", server.url)
    specdec("set", "big", "top_k=20", "thinking=off")
    specdec("profile", "set", "big/hot", "temperature=0.9")
    assert run("-m", "big/hot", "hello").exit_code == 0
    sent = server.asked[-1][1]
    assert (sent["top_k"], sent["temperature"]) == (20, 0.9)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert "lane: served: vllm at" in specdec("explain", "big").printed


def test_what_the_engine_cannot_honour_is_refused_before_it_is_asked(server):
    specdec("add", "big", "--served", server.url)
    asked = len(server.asked)
    done = run("-m", "big", "-o", "kv_bits", "8", "hello")
    assert "vllm cannot honour kv_bits 8 (-o kv_bits)" in done.error
    assert len(server.asked) == asked


def test_list_and_show_have_the_server(server):
    specdec("add", "big", "--served", server.url)
    assert re.search(r"^big +served +auto +– +smol", specdec("list").printed, re.MULTILINE)
    assert f"vllm 0.32.0 at {server.url}" in specdec("show", "big").printed
    listed = json.loads(specdec("list", "--json").printed)
    assert listed[0]["served"]["engine"] == "vllm"


@pytest.mark.parametrize(
    "command",
    [
        ("show", "big", "--costs"),
        ("disable", "big"),
        ("enable", "big"),
        ("move", "big", "--target", "x"),
    ],
)
def test_what_needs_files_here_says_so(server, command):
    specdec("add", "big", "--served", server.url)
    done = specdec(*command)
    assert done.exit_code == 2
    assert f"big is served by {server.url}" in done.error


def test_doctor_names_a_server_that_is_there_changed_or_gone(server):
    specdec("add", "big", "--served", server.url)
    assert "serves smol; it does not say if it drafts" in specdec("doctor").stdout
    server.answers["/version"] = plays("vllm/01-models")
    server.answers["/version"].body = b'{"version": "0.33.0"}'
    assert "vllm 0.33.0" in specdec("doctor").stdout
    assert "was 0.32.0 when it was added" in specdec("doctor").stdout
    server.answers["/v1/models"].body = b'{"data": [{"id": "other"}]}'
    assert "has no model 'smol': it serves other" in specdec("doctor").stdout


def test_doctor_on_a_server_that_is_down(server):
    specdec("add", "big", "--served", server.url)
    server.shutdown()
    server.server_close()
    done = specdec("doctor")
    assert done.exit_code == 1
    assert "cannot be reached" in done.stdout
    assert f"llm specdec add big --force --served {server.url}" in done.stdout
    assert "fix: start the server; if it has moved" in done.stdout


def test_the_command_that_doctor_names_adds_the_same_again(server, card):
    chains.write_tokenizer(card.parent / "tokens", [], chains.CHATML)
    (card.parent / "tokens" / "config.json").write_text('{"model_type": "llama"}')
    (llm.user_dir() / "keys.json").write_text(json.dumps({"mine": KEY}))
    named = ("--key", "mine", "--insecure", "--card", card.parent, "--alias", "b", "--yes")
    counts = ("--tokenizer", card.parent / "tokens")
    specdec("add", "big", "--served", server.url, *named, *counts)
    specdec("set", "big", "top_k=20")
    before = registry.load().pairing("big")
    server.answers["/version"] = Answer(body=b'{"version": "0.33.0"}')
    findings = json.loads(specdec("doctor", "--json").stdout)["findings"]
    (fix,) = (found["fix"] for found in findings if "was 0.32.0" in found["what"])
    specdec(*shlex.split(fix)[2:], "--yes")
    assert before.served
    assert registry.load().pairing("big") == replace(
        before,
        added=registry.load().pairing("big").added,
        served=replace(before.served, version="0.33.0"),
    )


def test_doctor_names_what_mends_a_key_and_a_model_that_is_gone(server):
    specdec("add", "big", "--served", server.url)
    again = f"llm specdec add big --force --served {server.url} --engine vllm --target"
    server.answers["/v1/models"] = Answer(body=b'{"data": [{"id": "other"}]}')
    assert f"fix: {again} other" in specdec("doctor").stdout
    server.answers["/v1/models"] = Answer(401, b"{}")
    assert f"fix: {again} smol --key NAME" in specdec("doctor").stdout
    (llm.user_dir() / "keys.json").write_text(json.dumps({"mine": KEY}))
    server.answers |= ANSWERS
    specdec("add", "big", "--force", "--served", server.url, "--key", "mine")
    server.answers["/v1/models"] = Answer(401, b"{}")
    assert "fix: llm keys set mine" in specdec("doctor").stdout


def test_mlx_lm_is_warned_of(server):
    server.answers["/v1/models"] = plays("mlx_lm/01-models")
    done = specdec("add", "big", "--served", server.url)
    assert "--prompt-cache-size 0" in done.stderr
    assert "--prompt-cache-size 0" in specdec("doctor").stdout


def test_a_key_is_in_no_file_and_in_nothing_printed(server):
    (llm.user_dir() / "keys.json").write_text(json.dumps({"mine": KEY}))
    said = [specdec("add", "big", "--served", server.url, "--key", "mine")]
    said += [run("-m", "big", "hello"), specdec("show", "big"), specdec("doctor")]
    said += [specdec("list", "--json"), specdec("logs", "--json")]
    assert all(KEY not in done.stdout + done.stderr for done in said)
    assert server.asked[-1][2]["authorization"] == f"Bearer {KEY}"
    files = [path for path in llm.user_dir().rglob("*") if path.is_file()]
    holding = [path.name for path in files if KEY.encode() in path.read_bytes()]
    assert holding == ["keys.json"]  # where llm keeps it, which shows that the search finds it


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--served", "http://me:pw@host/v1"], "without user, password or query"),
        (["--served", "host:8000"], "takes an address"),
        (["--served", "http://h/v1", "--drafter", "none"], "--drafter means nothing with"),
        (["--target", "x", "--key", "k"], "--key means nothing without"),
        ([], "give --target, or --served"),
        (["--served", "http://10.0.0.7/v1", "--key", "k"], "--insecure"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, words):
    done = specdec("add", "big", *arguments)
    assert done.exit_code == 2
    assert words in done.error


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('{ url = "http://a:b@h/v1", engine = "vllm" }', "served.url: must be an address"),
        ('{ url = "http://h/v1", engine = "tgi" }', "served.engine: must be"),
        ('{ url = "http://h/v1" }', "engine is missing"),
        ('{ url = "http://h/v1", engine = "vllm", token = "x" }', "unknown key"),
    ],
)
def test_a_wrong_entry_is_named(table, words):
    write_registry(f'[pairings.big]\ntarget = "t"\nserved = {table}\n')
    assert words in registry.load().problems["big"]


def test_served_runs_are_not_compared_with_local_ones(server):
    specdec("add", "big", "--served", server.url)
    run("-m", "big", "hello")
    log(llm.user_dir() / "logs.db", "local")
    done = specdec("compare", "big", "local")
    assert done.exit_code == 1
    assert "was served: its rates count the network" in done.error


def test_two_servers_of_one_host_are_compared(server):
    specdec("add", "big", "--served", server.url)
    with serving(dict(ANSWERS)) as other:
        specdec("add", "big2", "--served", other.url)
        run("-m", "big", "hello")
        run("-m", "big2", "hello")
    done = specdec("compare", "big", "big2")
    assert done.exit_code == 0, done
    assert "end-to-end: B" in done.stdout


def test_a_chat_goes_on(server):
    specdec("add", "big", "--served", server.url)
    server.answers["/v1/chat/completions"] = stream(
        [chunk({"content": "Hi"}, "stop"), "data: [DONE]"]
    )
    run("-m", "big", "hello")
    run("-c", "and?")
    roles = [message["role"] for message in server.asked[-1][1]["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_what_an_answer_breaks_off_with_begins_a_line(server):
    specdec("add", "big", "--served", server.url)
    server.answers["/v1/chat/completions"] = stream([chunk({"content": "Hello"})])
    done = run("-m", "big", "hello")
    assert done.stdout == "Hello\n"
    assert done.stderr.startswith("Error: ")


def test_ctrl_c_closes_the_connection_and_leaves_a_receipt(server):
    specdec("add", "big", "--served", server.url)
    lines = [chunk({"content": "word "})] * 600
    server.answers["/v1/chat/completions"] = stream(lines, pause=0.1)
    with subprocess.Popen([*LLM, "-m", "big", "hello"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"word "
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT
    assert server.gone.wait(5)
    (receipt,) = logged_receipts()
    assert receipt["finish_reason"] == "interrupted"
    assert receipt["tokens"]["completion"] is None


@pytest.fixture
def card(tmp_path):
    """A folder that holds nothing but a card."""
    folder = tmp_path / "published"
    folder.mkdir()
    readme = folder / "README.md"
    readme.write_text("# Model\n\n## Recommended settings\n\n- temperature: 0.6\n- top_p: 0.95\n")
    return readme


def test_the_card_of_a_served_model_gives_its_settings(server, card):
    added = ("add", "big", "--served", server.url, "--card", card.parent, "--yes")
    assert "card: taken: temperature 0.6" in specdec(*added).printed
    run("-m", "big", "hello")
    assert (server.asked[-1][1]["temperature"], server.asked[-1][1]["top_p"]) == (0.6, 0.95)
    assert "README.md" in specdec("explain", "big").printed
    card.write_text(card.read_text().replace("0.6", "0.7"))
    assert "temperature 0.6 → 0.7" in specdec("update", "big", "--yes").printed
    run("-m", "big", "hello")
    assert server.asked[-1][1]["temperature"] == 0.7


def test_a_card_that_is_not_there_is_an_error_and_nothing_is_added(server, tmp_path):
    done = specdec("add", "big", "--served", server.url, "--card", tmp_path / "nowhere")
    assert done.exit_code == 1 and "nowhere" in done.error
    assert not registry.default_path().exists()


def test_update_of_a_served_pairing_without_a_card_says_how_to_name_one(server):
    specdec("add", "big", "--served", server.url)
    said = specdec("update", "big").error
    assert "--target smol --card PATH_OR_REPO says it" in said
    assert " --force --served http://127" in said
    done = specdec("add", "there", "--target", "m", "--card", "c")
    assert (done.exit_code, done.error) == (2, "Error: --card means nothing without --served")


def test_async_prompts_of_a_server_do_not_wait_for_each_other(server):
    together = threading.Barrier(3, timeout=20)

    class Meeting(dict[str, Answer]):
        def get(self, path, otherwise=None):
            if path.endswith("completions"):
                together.wait()  # broken unless all three are asked at once
            return super().get(path, otherwise)

    specdec("add", "big", "--served", server.url)
    server.answers = Meeting(ANSWERS)

    async def ask():
        return await llm.get_async_model("big").prompt("hello").text()

    async def all_at_once():
        return await asyncio.gather(*(ask() for _ in range(3)))

    texts = asyncio.run(all_at_once())
    assert len(set(texts)) == 1 and texts[0].startswith("The quick brown fox")


def test_a_picture_is_sent_along(server, tmp_path):
    specdec("add", "big", "--served", server.url)
    (tmp_path / "dot.png").write_bytes(PICTURE)
    run("-m", "big", "-a", tmp_path / "dot.png", "What is this?")
    ((text, image),) = (message["content"] for message in server.asked[-1][1]["messages"])
    assert text == {"type": "text", "text": "What is this?"}
    assert image["image_url"]["url"] == f"data:image/png;base64,{b64encode(PICTURE).decode()}"


def test_show_says_nothing_of_a_drafter_that_is_the_servers_affair(server):
    specdec("add", "big", "--served", server.url)
    shown = specdec("show", "big").printed
    assert "served by" in shown
    assert "drafter" not in shown


def test_mlx_lm_takes_no_picture(tmp_path):
    write_registry(
        '[pairings.there]\ntarget = "m"\n[pairings.there.served]\n'
        'url = "http://127.0.0.1:9/v1"\nengine = "mlx-lm"\n'
    )
    (tmp_path / "dot.png").write_bytes(PICTURE)
    done = run("-m", "there", "-a", tmp_path / "dot.png", "What is this?")
    assert "does not support attachments" in done.stderr
