"""What strangers wrote cannot command a terminal, whichever way it is printed."""

import json
import unicodedata

import click
import pytest
from click.testing import CliRunner

from llm_specdec.cli import LazyGroup
from llm_specdec.cli.output import print_json, show_value, table, warn
from llm_specdec.console import text
from llm_specdec.errors import LONGEST, CheckpointError
from tests.support.checkpoints import write_model
from tests.support.command_line import specdec

TITLE, COLOUR, BACKWARDS = "\x1b]0;owned\x07", "\x9b31m", "\u202etxt.exe"
HOSTILE = f"{TITLE}{COLOUR}{BACKWARDS}\r\x00\x7f\u2028\u2066\ud800"
COMMANDS = {chr(n) for n in (*range(9), *range(11, 32), *range(127, 160))}


def harmless(shown):
    bidi = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    return not COMMANDS & {*shown} and not bidi & {*map(unicodedata.bidirectional, shown)}


def test_each_is_made_visible_and_nothing_else_changes():
    said = "äöü 漢字 🐼‍👩 tab\tand\nline « » العربية"
    assert text.clean(said) == said
    assert text.clean(HOSTILE).count("\ufffd") == 10
    assert harmless(text.clean("".join(map(chr, range(0x3000)))))
    assert text.one_line("a\nb\tc\x1b") == "a⏎b c\ufffd"


def test_json_escapes_them_and_means_the_same():
    data = {HOSTILE: ["ü", HOSTILE]}
    shown = text.escaped(json.dumps(data, ensure_ascii=False))
    assert harmless(shown)
    assert "ü" in shown
    assert json.loads(shown) == data


def test_whatever_a_command_prints_is_clean():
    @click.command()
    def anything():
        text.echo(HOSTILE)
        warn(f"a\n{HOSTILE}")
        text.echo("\n".join(table([["a\nb", HOSTILE], ["c", show_value(HOSTILE)]])))
        print_json({"x": HOSTILE})
        raise CheckpointError(f"{HOSTILE}\n{'x' * 10_000} do this")

    group = LazyGroup("specdec", commands={"anything": anything})
    result = CliRunner().invoke(group, ["anything"])
    assert result.exit_code == 1
    assert harmless(result.output)
    *_, error = result.output.splitlines()
    assert error.startswith("Error: ")
    assert error.endswith("do this")
    assert len(error) < LONGEST + 10
    assert result.output.count("\n") == 8


@pytest.mark.parametrize("field", ["model_file", "architectures", "rope"])
def test_a_hostile_config_cannot_command_the_terminal(tmp_path, field):
    folder = tmp_path / "two\nlines\x1b[31m"
    value = [HOSTILE[:-1]] if field == "architectures" else HOSTILE[:-1]
    write_model(folder, {field: value, "model_type": "llama"})
    for more in ([], ["--json"]):
        result = specdec("inspect", folder, *more)
        assert harmless(result.stdout) and harmless(result.stderr)
        assert result.exit_code == 0
