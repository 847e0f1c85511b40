"""mlx_lm's own server, started on a free port of loopback and stopped again."""

import socket
import subprocess
import sys
import time

import pytest

from tests.support.command_line import run, specdec
from tests.support.receipts import logged_receipts

pytestmark = [pytest.mark.real, pytest.mark.slow]

# With the BLAS that the plugin finds, as mlx's own is slow on Linux.
SERVER = "import llm_specdec.engine, mlx_lm.server as server; server.main()"
PATIENCE = 120  # seconds to start


@pytest.fixture(scope="module")
def url(smollm2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--model", smollm2 / "smollm2", "--host", "127.0.0.1", "--port", port]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _listens(port):
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(30)


def _listens(port):
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def test_a_profile_gives_the_same_text_here_and_served(url, smollm2):
    own = smollm2 / "smollm2"
    done = specdec("add", "there", "--served", url, "--tokenizer", own)
    assert "engine mlx-lm (by its header" in done.printed
    assert "the server counts" not in done.stderr
    specdec("add", "here", "--target", own, "--drafter", "none")
    texts = []
    for name in ("here", "there"):
        specdec("profile", "set", f"{name}/short", "max_tokens=16", "repetition_penalty=1.1")
        texts.append(run("-m", f"{name}/short", "Name three colours of the rainbow.").printed)
    assert texts[0] == texts[1]
    _, served = logged_receipts()
    assert served["engine"]["name"] == "mlx-lm"
    assert served["engine"]["version"].startswith("0.")
    assert served["tokens"]["completion"] <= 16
    assert served["draft"]["drafted"] is None
    assert served["ttft_ms"] <= served["wall_ms"]
