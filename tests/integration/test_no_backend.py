import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="mlx brings its backend there")
def test_without_a_backend_one_line_names_the_extra_to_install():
    code = (
        "import sys; sys.modules['mlx.core'] = None\n"
        "from llm_specdec.errors import ResourceError\n"
        "try:\n    import llm_specdec.engine\n"
        "except ResourceError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert "llm-specdec[cpu]" in done.stdout
