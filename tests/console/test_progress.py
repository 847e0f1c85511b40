import re

import pytest

from llm_specdec.console.progress import progress
from tests.support.terminal import left_on_screen, on_terminal

SCRIPT = """
import time
from llm_specdec.console.notices import warn
from llm_specdec.console.progress import progress
with progress("loading a model") as change:
    time.sleep(0.8)
    warn("something odd")
    change("1/2 run")
    time.sleep(0.8)
    with progress("measuring"):
        time.sleep(2.7)
    {end}
print("done")
"""


@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("raise KeyboardInterrupt", 1)])
def test_a_terminal_shows_what_goes_on_and_at_the_end_nothing(end, code):
    exit_code, said = on_terminal(["-c", SCRIPT.format(end=end)])
    assert bool(exit_code) == bool(code)
    for shown in ("loading a model …", "1/2 run …"):
        assert shown in said
    assert re.search(r"measuring … \d+ s", said)  # a busy machine may skip a second
    assert left_on_screen(said)[0] == "Warning: something odd"
    assert not any("…" in line for line in left_on_screen(said))


def test_what_is_over_at_once_shows_nothing():
    assert on_terminal(["-c", SCRIPT.replace("sleep", "monotonic; (lambda x: x)").format(end="")])[
        1
    ].splitlines() == ["Warning: something odd"]


def test_nothing_is_shown_where_nobody_watches(capfd):
    with progress("loading") as change:
        change("more")
    assert capfd.readouterr().err == ""


def test_a_long_text_keeps_to_the_line():
    script = f"""
from llm_specdec.console.progress import progress
import time
with progress({"x" * 500!r}):
    time.sleep(0.8)
"""
    _, said = on_terminal(["-c", script])
    assert 0 < said.count("x") < 200
