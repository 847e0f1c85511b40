"""The tiny models are worth testing with."""

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load

from fixtures import zoo


def greedy(model, prompt, n):
    return [token for token, _ in generate_step(mx.array(prompt), model, max_tokens=n)]


@pytest.mark.parametrize("family", zoo.FAMILIES)
def test_greedy_text_varies(family):
    assert len(set(greedy(zoo.build(family)[0], [3, 1, 4, 1, 5], 40))) >= 8


def test_a_family_is_built_the_same_every_time():
    texts = [greedy(zoo.build("llama", seed=s)[0], [3, 1, 4], 12) for s in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("family", ["llama", "qwen3_5", "gemma3"])
def test_a_written_model_loads_like_a_published_one(family, tmp_path):
    model, tokenizer = load(str(zoo.write(family, tmp_path / family)))
    assert greedy(model, [3, 1, 4], 12) == greedy(zoo.build(family)[0], [3, 1, 4], 12)
    assert tokenizer.eos_token_id == 2
    assert tokenizer.decode(tokenizer.encode("ab c")).strip() == "ab c"
