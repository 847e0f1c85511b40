"""In a pipeline: stdout is the answer, everything else is on stderr, and bad input ends early."""

import sys

import llm
import pytest

from llm_specdec.backends.local import loading
from llm_specdec.console import notices
from llm_specdec.engine.hardware import blas
from tests.support import chains
from tests.support.command_line import Done, run_process, write_registry

HI = ["<|hi|>", "Hello", " you."]


@pytest.fixture
def chain(tmp_path):
    chains.write(tmp_path / "chain", [HI], chains.template({}, "<|hi|>"))
    write_registry(
        f'[pairings.chain]\ntarget = "{tmp_path / "chain"}"\n'
        "[pairings.chain.settings]\ncontext = 8192\n"
    )


def test_stdin_and_argument_are_one_prompt_and_stdout_is_the_answer(chain):
    run = run_process("-m", "chain", "Sum up", stdin="das Wort für 🐼".encode())
    assert run == Done(0, "Hello you.\n", "")


def test_what_is_no_utf_8_is_refused(chain):
    run = run_process("-m", "chain", stdin=b"caf\xe9 \xff")
    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr == "Error: the prompt is not UTF-8: convert it, with iconv for example\n"


@pytest.mark.parametrize("size", [8192, 1_000_000])
def test_a_prompt_beyond_the_context_is_refused_before_weights_are_loaded(chain, monkeypatch, size):
    def load(plan):
        raise AssertionError("loaded")

    monkeypatch.setattr(loading, "load", load)
    with pytest.raises(llm.ModelError, match=r"has \d+ tokens, the context of chain 8192: shorten"):
        llm.get_model("chain").prompt("x" * size).text()


def test_a_warning_comes_once_a_process_and_on_stderr(capsys):
    notices.warn.cache_clear()
    for _ in range(3):
        notices.warn("mind the gap")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "Warning: mind the gap\n")


@pytest.mark.skipif(
    sys.platform != "linux" or any(map(blas.installed, blas.CUDA_BACKENDS)),
    reason="only MLX's CPU backend on Linux takes another BLAS",
)
def test_a_blas_that_was_named_and_is_not_there_is_a_warning_of_prompts(chain, monkeypatch):
    monkeypatch.setenv("LLM_SPECDEC_BLAS", "/no/such/file")
    run = run_process("chat", "-m", "chain", stdin=b"hi\nhi again\nexit\n")
    assert run.exit_code == 0 and run.stdout.count("Hello you.") == 2
    assert run.error.startswith("Warning: LLM_SPECDEC_BLAS is not used: /no/such/file: cannot open")
    assert run.error.endswith("; correct or unset LLM_SPECDEC_BLAS")
    assert run_process("--help").stderr == ""
