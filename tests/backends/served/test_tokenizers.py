"""What a tokenizer beside a served model is good for: prompts counted, thinking in words."""

import json

import pytest

from fixtures.loopback import chunk, serving, stream
from llm_specdec import backends, settings
from llm_specdec.backends import Notice, Request
from llm_specdec.errors import ContextError, UsageError
from llm_specdec.pairings import registry
from llm_specdec.pairings.registry import Pairing, Served
from tests.support import chains
from tests.support.command_line import run, specdec
from tests.support.served import plays

CHAT = "/v1/chat/completions"
HELLO = Request(messages=[{"role": "user", "content": "hello"}])
FRAME = len("user\nassistant\n\n") + 3  # a token each byte, and the template's three signs
SWITCH = "{% if thinking %}<think>{% endif %}"


@pytest.fixture
def tokenizer(tmp_path):
    folder = tmp_path / "tokenizer"
    chains.write_tokenizer(folder, [], chains.template({}, SWITCH))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


def says(prompt_tokens):
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 2, "total_tokens": 0}
    lines = [chunk({"content": "Hi"}, "stop"), chunk({}, usage=usage), "data: [DONE]"]
    return stream(lines)


def sent_and_said(tokenizer, request=HELLO, engine="vllm", **options):
    """The body that a server gets, which counts as the tokenizer does, and the events."""
    with serving({CHAT: says(FRAME + len("hello"))}) as server:
        place = Pairing("big", "smol", served=Served(server.url, engine, tokenizer=tokenizer))
        plan = backends.plan(place, None, settings.resolve(place, options=options))
        events = list(backends.execute(plan, request))
    return server.asked[0][1], events


def test_a_context_that_is_set_limits_the_answer(tokenizer):
    room = 100 - FRAME - len("hello")
    assert sent_and_said(str(tokenizer), context=100)[0]["max_tokens"] == room
    sent, events = sent_and_said(str(tokenizer), context=100, max_tokens=7)
    assert sent["max_tokens"] == 7
    assert not [event for event in events if isinstance(event, Notice)]


def test_without_a_context_nothing_is_counted(tokenizer):
    assert "max_tokens" not in sent_and_said(str(tokenizer.with_name("nowhere")))[0]


def test_a_prompt_that_is_too_long_is_not_sent(tokenizer):
    with serving({CHAT: says(1)}) as server, pytest.raises(ContextError) as caught:
        place = Pairing("big", "m", served=Served(server.url, "vllm", tokenizer=str(tokenizer)))
        plan = backends.plan(place, None, settings.resolve(place, options={"context": 20}))
        list(backends.execute(plan, HELLO))
    assert f"the prompt has {FRAME + 5} tokens, the context of big 20 (-o context)" in str(
        caught.value
    )
    assert server.asked == []


def test_without_a_tokenizer_a_context_is_refused_with_what_would_help():
    with pytest.raises(UsageError, match=r"context 100 \(-o context\): .* with --tokenizer"):
        sent_and_said(None, context=100)


def test_pictures_are_not_counted(tokenizer):
    message = {"role": "user", "content": "what?", "images": ["http://h/a.png"]}
    with pytest.raises(UsageError, match="how many tokens a picture has is not known"):
        sent_and_said(str(tokenizer), Request(messages=[message]), context=100)


def test_a_server_that_counts_otherwise_is_said(tokenizer):
    longer = Request(messages=[{"role": "user", "content": "hello!"}])
    (notice,) = (e for e in sent_and_said(str(tokenizer), longer, context=100)[1]
                 if isinstance(e, Notice))  # fmt: skip
    assert f"counts {FRAME + 5} tokens in a prompt in which" in notice.text


def test_thinking_is_sent_in_the_words_of_the_models_own_template(tokenizer):
    sent, _ = sent_and_said(str(tokenizer), thinking="on")
    assert sent["chat_template_kwargs"] == {"thinking": True}
    sent, _ = sent_and_said(None, thinking="on")
    assert sent["chat_template_kwargs"] == {"enable_thinking": True}


@pytest.mark.parametrize(
    "options", [{"thinking": "low"}, {"chat_template_kwargs": {"enable_thinking": True}}]
)
def test_what_the_models_own_template_does_not_know_is_refused(tokenizer, options):
    with pytest.raises(UsageError, match="the chat template"):
        sent_and_said(str(tokenizer), **options)


@pytest.fixture
def server():
    """It counts as the tokenizer does in what `add` asks."""
    answers = {
        "/v1/models": plays("vllm/01-models"),
        "/version": plays("vllm/09-version"),
        CHAT: says(FRAME + len("Hello!")),
    }
    with serving(answers) as found:
        yield found


def test_add_keeps_a_tokenizer_that_counts_as_the_server_does(server, tokenizer):
    done = specdec("add", "big", "--served", server.url, "--tokenizer", tokenizer)
    assert (done.exit_code, done.stderr) == (0, "")
    assert server.asked[-1][1]["max_tokens"] == 1
    served = registry.load().pairing("big").served
    assert served and served.tokenizer == str(tokenizer)
    assert str(tokenizer) in specdec("show", "big").printed
    assert f"tokenizer: that of {tokenizer}" in specdec("explain", "big").printed
    assert json.loads(specdec("explain", "big", "--json").printed)["tokenizer"] == str(tokenizer)
    assert json.loads(specdec("list", "--json").printed)[0]["served"]["tokenizer"] == str(tokenizer)
    assert specdec("set", "big", "thinking=low").exit_code == 2


def test_add_warns_of_a_tokenizer_that_counts_otherwise(server, tokenizer):
    server.answers[CHAT] = says(99)
    done = specdec("add", "big", "--served", server.url, "--tokenizer", tokenizer)
    assert f"the server counts 99 tokens in a prompt in which the tokenizer of {tokenizer} counts "
    assert "is it this model's, with the same chat template?" in done.stderr
    assert "big" in registry.load().pairings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no folder"),
        ('{"broken": 1}', "its tokenizer does not load"),
        ("", "holds no tokenizer: name the model's own folder"),
    ],
)
def test_a_tokenizer_that_does_not_load_is_one_line_and_nothing_is_added(
    server, tokenizer, text, words
):
    (tokenizer / "tokenizer.json").unlink()
    if text:
        (tokenizer / "tokenizer.json").write_text(text)
    named = tokenizer / "nowhere" if text is None else tokenizer
    done = specdec("add", "big", "--served", server.url, "--tokenizer", named)
    assert done.exit_code == 1
    assert words in done.error and str(named) in done.error
    assert not registry.default_path().exists()


def test_doctor_loads_the_tokenizer(server, tokenizer):
    specdec("add", "big", "--served", server.url, "--tokenizer", tokenizer)
    assert f"big: the tokenizer of {tokenizer} loads" in specdec("doctor").stdout
    tokenizer.rename(tokenizer.with_name("gone"))
    done = specdec("doctor")
    assert done.exit_code == 1
    assert f"big: tokenizer: no folder {tokenizer}" in done.stdout
    assert f"--target smol --tokenizer {tokenizer}" in done.stdout


def test_a_prompt_of_llm_is_counted(server, tokenizer):
    specdec("add", "big", "--served", server.url, "--tokenizer", tokenizer)
    specdec("set", "big", "context=30")
    asked = len(server.asked)
    assert "the prompt has" in run("-m", "big", "hello there").error
    assert len(server.asked) == asked


def test_a_tokenizer_means_nothing_for_what_runs_here(tokenizer):
    done = specdec("add", "here", "--target", "m", "--tokenizer", tokenizer)
    assert done.error == "Error: --tokenizer means nothing without --served"
