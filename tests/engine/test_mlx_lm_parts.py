"""mlx-lm's models come without transformers, and mlx-lm as a whole stays what it is."""

import subprocess
import sys

import mlx_lm
import mlx_lm.utils
import pytest

from llm_specdec.engine import mlx_lm_parts

PROGRAM = """
import sys
import llm_specdec.engine
{then}
print([name for name in ("transformers", "huggingface_hub") if name in sys.modules])
"""


def printed(then):
    program = PROGRAM.format(then=then)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stderr == ""
    return run.stdout.splitlines()


def test_target_and_drafters_import_no_transformers():
    assert printed(
        "import mlx_lm.models.qwen3_5, llm_specdec.engine.session, llm_specdec.backends.local\n"
        "import llm_specdec.drafters.mtp.drafter, llm_specdec.drafters.dflash.model"
    ) == ["[]"]


@pytest.mark.parametrize(
    "then",
    [
        "from mlx_lm import load; print(callable(load))",
        "import mlx_lm; print(callable(mlx_lm.stream_generate))",
        "import mlx_lm.utils; print(callable(mlx_lm.utils.load))",
        "from mlx_lm.generate import generate_step; print(callable(generate_step))",
        "import mlx_lm; print(not hasattr(mlx_lm, 'nothing') and mlx_lm.__version__ > '0')",
    ],
)
def test_who_imports_mlx_lm_itself_gets_all_of_it(then):
    assert printed(then) == ["True", "['transformers', 'huggingface_hub']"]


def test_the_copies_are_not_mlx_lms_own_and_its_own_are_whole():
    assert mlx_lm_parts.utils.load_model is not mlx_lm.utils.load_model
    assert mlx_lm.utils.snapshot_download is not None
    assert mlx_lm_parts.utils.snapshot_download is None


def test_where_a_module_needs_more_than_a_stand_in_has_its_own_takes_its_place():
    parts = mlx_lm_parts._copy_of("mlx_lm.tokenizer_utils", {"transformers": object()})
    assert parts is sys.modules["mlx_lm.tokenizer_utils"]
