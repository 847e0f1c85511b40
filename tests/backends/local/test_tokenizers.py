"""A second command with the same model loads its tokenizer without transformers."""

import os
import subprocess
import sys

import pytest

from fixtures import zoo
from llm_specdec.backends.local import tokenizers
from llm_specdec.engine import tokenizer as engine
from tests.support.command_line import write_registry

ASK = """
import sys
from click.testing import CliRunner
from llm.cli import cli
done = CliRunner().invoke(cli, ["-m", "tiny", "!#", "-o", "max_tokens", "3"])
assert done.exit_code == 0, done.output
print("transformers" in sys.modules, done.output.strip())
"""


@pytest.fixture
def folder(tmp_path):
    zoo.write("llama", tmp_path / "model")
    zoo.write_tokenizer(tmp_path / "model")
    write_registry(f"""
        [pairings.tiny]
        target = "{tmp_path / "model"}"
        drafter = "none"
        """)
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """What a process remembers of tokenizers is forgotten."""

    def forget():
        for cached in (tokenizers.restore, tokenizers.keep, tokenizers._path):
            cached.cache_clear()
        monkeypatch.setattr(engine, "_tokenizers", {})

    forget()
    yield forget
    forget()


def asked():
    run = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    return run.stdout.strip().split(maxsplit=1)


def kept(llm_user):
    return sorted((llm_user / "specdec" / "tokenizers").glob("*"))


def test_a_second_command_answers_the_same_without_transformers(folder, llm_user):
    first, second = asked(), asked()
    assert (first[0], second[0]) == ("True", "False")
    assert first[1:] == second[1:]
    (path,) = kept(llm_user)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_model_that_changed_is_read_anew(folder, llm_user, fresh_process):
    tokenizers.keep(folder)
    fresh_process()
    zoo.write_tokenizer(folder, 61, (7,))
    tokenizers.restore(folder)
    assert not engine._tokenizers
    assert 7 not in engine.tokenizer_of(folder).get_vocab().values()


def test_a_damaged_file_is_no_error(folder, llm_user, fresh_process):
    tokenizers.keep(folder)
    fresh_process()
    kept(llm_user)[0].write_bytes(b"\xff")
    tokenizers.restore(folder)
    assert not engine._tokenizers


def test_the_oldest_beyond_a_dozen_go(folder, llm_user, monkeypatch):
    monkeypatch.setattr(tokenizers, "MOST", 2)
    old = llm_user / "specdec" / "tokenizers"
    old.mkdir(parents=True)
    for age, name in enumerate(("b", "c", "a")):
        (old / f"{name}.json").write_text("")
        os.utime(old / f"{name}.json", (1000 - age, 1000 - age))
    tokenizers.keep(folder)
    assert len(kept(llm_user)) == 2 and (old / "b.json").exists()
