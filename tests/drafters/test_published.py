"""The list of published drafters: who gets what, and that the docs say the same."""

import re
from pathlib import Path

import pytest

from llm_specdec.drafters.published import drafters_for, table

DOCS = Path(__file__).parents[2] / "docs" / "choosing.md"


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("mlx-community/Qwen3.6-27B-4bit", "mlx-community/Qwen3.6-27B-MTP-4bit"),
        ("/models/Huihui-qwen3.6-35b-a3b-abliterated/", "z-lab/Qwen3.6-35B-A3B-DFlash"),
        ("mlx-community/gemma-4-26b-a4b-it-8bit", "z-lab/gemma-4-26B-A4B-it-DFlash"),
        ("mlx-community/gemma4-12B-it-4bit", "z-lab/gemma4-12B-it-DFlash"),
        ("LiquidAI/LFM2.5-2.6B-MLX", "LiquidAI/LFM2.5-2.6B-DSpark"),
    ],
)
def test_a_target_is_known_by_words_of_its_name(target, first):
    assert drafters_for(target)[0] == first


@pytest.mark.parametrize("target", ["me/Qwen3.5-4bit", "Qwen3-4B.folder/other", "Qwen3-40B", ""])
def test_part_of_a_word_is_no_name(target):
    assert drafters_for(target) == ()


def test_the_docs_name_the_same_repositories():
    page = set(re.findall(r"`([\w.-]+/[\w.-]+)`", DOCS.read_text("utf-8")))
    assert {one for found in table().values() for one in found} <= page
