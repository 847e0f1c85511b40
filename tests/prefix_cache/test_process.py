"""The prefix cache through llm: in a chat, across processes, and where nothing may be kept."""

import click
import llm
import numpy as np
import pytest
from llm.cli import cli

from fixtures import zoo
from llm_specdec.console import notices
from llm_specdec.prefix_cache import process
from llm_specdec.prefix_cache.disk import read_head
from tests.support.command_line import run_process, write_registry
from tests.support.disks import read_only, small
from tests.support.receipts import logged_receipts, receipt_of

WORDS = " ".join(f"w{number % 60}" for number in range(40))  # 40 tokens and more: worth keeping
QUESTION = f"{WORDS} w7"


@pytest.fixture
def tiny(tmp_path):
    """Random models as pairings: `tiny` cuts its states anywhere, `hybrid` cannot."""
    tables = ['[cache]\nlimit = "1GB"\n']
    for name, family in (("tiny", "qwen3"), ("hybrid", "qwen3_5")):
        target = zoo.write(family, tmp_path / name)
        tables.append(
            f'[pairings.{name}]\ntarget = "{target}"\ndrafter = "lookup"\n'
            f"[pairings.{name}.settings]\ndraft_tokens = 3\nmax_tokens = 12\ncontext = 512\n"
        )
    folder = write_registry("".join(tables)).parent
    with click.Context(cli).scope():  # as in a command of llm, which logs what was said
        yield folder


def asked(model, question, **options):
    response = llm.get_model(model).prompt(question, **options)
    return receipt_of(response), response.token_details


def entries(folder):
    return sorted((folder / "cache").rglob("*.safetensors"))


def wait():
    """The next job begins once the last one's states are kept."""
    llm.get_model("tiny").prompt("w1", max_tokens=1, prefix_cache=False).text()


@pytest.mark.parametrize("name", ["tiny", "hybrid"])
def test_a_second_prompt_is_warm_and_says_so(tiny, name):
    cold, _ = asked(name, QUESTION)
    warm, details = asked(name, QUESTION)
    assert cold["tokens"]["cached"] == 0 == cold["phases_ms"]["restore"]
    assert warm["tokens"]["cached"] == details["cached"] == warm["tokens"]["prompt"] - 1
    assert warm["phases_ms"]["restore"] > 0
    assert warm["ttft_ms"] >= warm["phases_ms"]["restore"]
    for same in ("completion_sha256", "draft"):
        assert warm[same] == cold[same]
    inside = sum(ms for phase, ms in warm["phases_ms"].items() if phase != "load")
    assert inside == pytest.approx(warm["wall_ms"], rel=0.01)


@pytest.mark.parametrize("name", ["tiny", "hybrid"])
def test_a_conversation_goes_on_where_it_stopped(tiny, name):
    conversation = llm.get_model(name).conversation()
    conversation.prompt(QUESTION).text()
    warm = receipt_of(conversation.prompt("w3 w4"))
    assert warm["tokens"]["cached"] > 40
    cold = llm.get_model(name).conversation()
    cold.prompt(QUESTION, prefix_cache=False).text()
    receipt = receipt_of(cold.prompt("w3 w4", prefix_cache=False))
    assert receipt["tokens"]["cached"] == 0
    assert receipt["completion_sha256"] == warm["completion_sha256"]


def test_false_neither_keeps_nor_uses(tiny):
    before = process.hot().nbytes
    for _ in range(2):
        receipt, _ = asked("tiny", QUESTION, prefix_cache=False)
        assert receipt["tokens"]["cached"] == 0
    wait()
    assert entries(tiny) == [] and process.hot().nbytes == before


def test_what_python_asks_stays_off_the_disk(tiny):
    """Nobody knows whether a library user logs it."""
    with click.Context(click.Command("theirs")).scope():
        asked("tiny", QUESTION)
        warm, _ = asked("tiny", QUESTION)
        wait()
    assert warm["tokens"]["cached"] > 0
    assert entries(tiny) == []


def test_logging_off_keeps_prompts_off_the_disk(tiny):
    (tiny.parent / "logs-off").touch()
    asked("tiny", QUESTION)
    warm, _ = asked("tiny", QUESTION)
    wait()
    assert warm["tokens"]["cached"] > 0  # memory is no disk
    assert entries(tiny) == []


def test_a_broken_disk_warns_once_and_answers(tiny, capfd):
    (tiny / "cache").write_text("a file where the folder should be")
    receipt, _ = asked("tiny", QUESTION)
    wait()
    assert receipt["finish_reason"] == "length"
    assert capfd.readouterr().err.count("Warning: the prefix cache in") == 1


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        (
            small,
            "nothing is kept on disk, the prefix cache there is off (10 GiB of disk stay free)",
        ),
        (read_only, "cannot be written: Read-only file system"),
    ],
)
def test_a_full_or_read_only_disk_is_one_warning_and_leaves_nothing(tiny, capfd, disk, said):
    notices.warn.cache_clear()
    with disk(tiny / "cache"):
        for name in ("tiny", "hybrid"):
            receipt, _ = asked(name, QUESTION)
            assert receipt["finish_reason"] == "length"
            wait()
        (told,) = capfd.readouterr().err.splitlines()
        assert said in told
        assert [path for path in tiny.rglob("*") if ".safetensors" in path.name] == []


def test_the_hot_tier_follows_its_limit(tiny):
    asked("tiny", QUESTION)
    wait()
    assert process.hot().nbytes > 0
    text = (tiny / "specdec.toml").read_text()
    (tiny / "specdec.toml").write_text(text.replace("[cache]\n", "[cache]\nhot = 0\n"))
    asked("tiny", "w5")
    assert process.hot().nbytes == 0


def quietly(*arguments):
    """What an llm command in another process prints, which says nothing else."""
    done = run_process(*arguments)
    assert done.stderr == ""
    return done.printed


def test_another_process_begins_with_what_is_on_disk(tiny):
    answers = [
        quietly("-m", "hybrid", QUESTION, "-n"),
        quietly("-m", "hybrid", QUESTION),
        quietly("-m", "hybrid", QUESTION, "--no-stream"),
    ]
    assert len(set(answers)) == 1
    cold, warm = (receipt["tokens"] for receipt in logged_receipts())
    assert cold["cached"] == 0 and warm["cached"] == warm["prompt"] - 1
    assert {path.stat().st_mode & 0o777 for path in entries(tiny)} == {0o600}


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("off", ["-n", "llm logs off"])
def test_what_is_not_logged_leaves_no_token_on_disk(tiny, off):
    """Searched for as the bytes in which the logged run stores them."""
    quietly("-m", "tiny", " ".join(reversed(WORDS.split())))
    assert len(entries(tiny)) == 1
    if off == "-n":
        quietly("-m", "tiny", QUESTION, "-n")
    else:
        quietly("logs", "off")
        quietly("-m", "tiny", QUESTION)
        quietly("logs", "on")
    before, known = bytes_of(tiny.parent), entries(tiny)
    quietly("-m", "tiny", QUESTION)
    (new,) = set(entries(tiny)) - set(known)
    with new.open("rb") as file:
        _, tokens = read_head(file)
    pattern = np.array(tokens[20:30], dtype="<i4").tobytes()
    assert pattern in bytes_of(tiny.parent)
    assert pattern not in before
