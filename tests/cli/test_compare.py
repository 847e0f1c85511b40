import json

import pytest
from click.testing import CliRunner
from llm.cli import cli

from llm_specdec.receipts import Lane
from tests.receipts.samples import log


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    return tmp_path / "logs.db"


def compare(*arguments):
    return CliRunner().invoke(cli, ["specdec", "compare", *arguments])


def baseline(path):
    return log(
        path,
        "qwen",
        lane=Lane("none", "off", "-o draft false"),
        completion_ids=list(range(167)),
        ttft_ms=12000.0,
        wall_ms=22000.0,
    )


def test_like_with_like_gives_the_gain(path):
    plain = baseline(path)
    drafted = log(path, "qwen")
    result = compare(plain, drafted)
    assert result.exit_code == 0
    assert "decode: B +114.4% against A (35.8 against 16.7 tok/s)" in result.stdout


def test_a_model_id_means_its_last_run(path):
    baseline(path)
    turn = log(path, "qwen")
    assert json.loads(compare("qwen", "qwen", "--json").stdout)["a"]["id"] == turn


def test_the_seeds_mix_up_exits_1_with_both_figures_of_both_runs(path):
    drafted, plain = log(path, "qwen"), baseline(path)
    result = compare(f"{drafted}@end-to-end", f"{plain}@decode")
    assert result.exit_code == 1
    for figure in ("decode 35.8", "end-to-end 11.3", "decode 16.7", "end-to-end 7.6"):
        assert figure in result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_an_unknown_run_is_one_line(path):
    log(path)
    result = compare("qwen", "nobody")
    assert result.exit_code == 1
    assert "nobody" in result.stderr and len(result.stderr.splitlines()) == 1
