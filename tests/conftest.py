"""What several tests share."""

import os
import signal

import hypothesis
import pytest

# Tests that run side by side leave each other a core.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("MKL_NUM_THREADS", "1")

import llm_specdec.engine  # noqa: F401  loads a fast BLAS before any test imports mlx
from fixtures.build import build, default_folder
from llm_specdec.backends.local import loading
from tests.support.command_line import write_registry

# A shell without job control starts its background jobs deaf to Ctrl-C, and nohup to the end of
# the terminal; so would all their children be.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A slow machine is no failed test.
hypothesis.settings.register_profile("llm-specdec", deadline=None)
hypothesis.settings.load_profile("llm-specdec")


@pytest.fixture(scope="session")
def smollm2():
    """The folder with smollm2, smollm2-mtp and drafters/; built once per machine."""
    return build(default_folder())


@pytest.fixture(autouse=True)
def broken_pipes_are_errors():
    """A prompt in this process leaves SIGPIPE as shells expect it, which would end all tests."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def llm_user(tmp_path_factory, monkeypatch):
    """llm's user folder: empty, and the test's own."""
    folder = tmp_path_factory.mktemp("llm")
    monkeypatch.setenv("LLM_USER_PATH", str(folder))
    monkeypatch.delenv("LLM_RAISE_ERRORS", raising=False)  # errors are worded as users see them
    return folder


@pytest.fixture(autouse=True)
def nothing_is_measured_after_answers(monkeypatch):
    """It would go on beside the tests that follow, in the user's own folder."""
    monkeypatch.setattr(loading, "refine_costs", lambda *asked: iter(()))


@pytest.fixture
def pairings(smollm2):
    """Pairings plain, look and small (profiles hot and mute) of the demo target."""
    target = smollm2 / "smollm2"
    write_registry(f"""
        [pairings.plain]
        target = "{target}"
        [pairings.look]
        target = "{target}"
        drafter = "lookup"
        aliases = ["l"]
        [pairings.small]
        target = "{target}"
        drafter = "{smollm2 / "drafters" / "model"}"
        kind = "model"
        [pairings.small.profiles.hot]
        temperature = 0.8
        [pairings.small.profiles.mute]
        system = "forbid"
        """)
