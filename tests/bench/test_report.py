import re

import pytest

pytest.importorskip("matplotlib", reason="pip install 'llm-specdec[report]'")

from matplotlib.figure import Figure

from llm_specdec.bench import report
from llm_specdec.bench.results import redact
from llm_specdec.bench.runs import perform
from llm_specdec.bench.store import Store
from tests.support.scripted_bench import SEED, Scripted, plan, progress


@pytest.fixture
def found(tmp_path):
    return perform(plan(), Scripted(SEED), Store(tmp_path / "bench.db"), progress()[0])


def test_the_page_is_self_contained_and_holds_verdict_figures_and_charts(found):
    page = report.html(found)
    assert "<script" not in page and not re.search(r'(src|href)="(?!#)', page)
    assert not re.search(r"url\((?!#)", page)
    assert "adopted: +134.9% at 2150 tokens" in page
    assert "[35.8, 40.6, 39.7] mean 38.7, median 39.7" in page
    for chart in ("Decode rate", "End-to-end rate", "Time to first token",
                  "Where the time goes", "Acceptance by position"):  # fmt: skip
        assert f'aria-label="{chart}"' in page


def test_charts_take_their_colours_from_the_page(found):
    page = report.html(found)
    assert "var(--ink)" in page and report.INK not in page and report.LINE not in page
    assert "prefers-color-scheme: dark" in page and "@media print" in page


def test_names_are_escaped_and_redaction_holds(found):
    found["conditions"]["models"]["target"]["name"] = "<b>evil</b>"
    assert "<b>evil</b>" not in report.html(found)
    assert "secret-drafter" not in report.html(redact(found))


def test_a_bench_without_runs_still_makes_a_page(tmp_path):
    engine = Scripted(SEED, outputs={"qwen": [9]})
    found = perform(plan(), engine, Store(tmp_path / "bench.db"), progress()[0])
    assert "broken: greedy output differs" in report.html(found)


def test_a_single_position_has_the_axis_of_a_position(found):
    """And not one from 0.945 to 1.055."""
    for row in found["cases"][0]["configs"]:
        row["accepted_by_position"] = [0.8] if row["config"] == "qwen" else []
    axes = Figure().subplots()
    assert report._positions(axes, found["cases"][0])
    assert axes.get_xlim() == (0.5, 1.5) and axes.get_ylim() == (0, 100)
    assert [tick for tick in axes.get_xticks() if 0.5 <= tick <= 1.5] == [1]


def test_the_target_alone_is_called_so(found):
    assert ">target alone<" in report.html(found)
    assert ">none<" not in report.html(found)
