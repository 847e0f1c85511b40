"""The plugin must cost nothing where it is not used."""

import json
import subprocess
import sys

HEAVY = ("mlx", "mlx_lm", "transformers", "tokenizers", "huggingface_hub", "llguidance")

PROBE = """
import json, sys
from click.testing import CliRunner
from llm.cli import cli
result = CliRunner().invoke(cli, sys.argv[1:])
assert result.exit_code == 0, result.output
print(json.dumps([name for name in {heavy!r} if name in sys.modules]))
"""


def imported_by(tmp_path, *arguments):
    run = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=HEAVY), *arguments],
        env={
            "LLM_USER_PATH": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def test_help_imports_nothing_heavy(tmp_path):
    for arguments in (["--help"], ["models"], ["specdec", "--help"]):
        assert imported_by(tmp_path, *arguments) == [], arguments


def test_what_asks_a_backend_imports_nothing_heavy():
    """The engine comes with `backends.local`, once something runs in this process."""
    program = f"""
import sys
import llm_specdec.adapter.models, llm_specdec.backends.notices, llm_specdec.bench.command
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")
