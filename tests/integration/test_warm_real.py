"""SmolLM2 with its trained drafters: warm runs are cold ones, only sooner."""

import pytest

from llm_specdec.engine.phases import PhaseTimer
from llm_specdec.engine.request import Request
from llm_specdec.prefix_cache.keys import key_of
from llm_specdec.prefix_cache.lookup import PrefixCache
from llm_specdec.prefix_cache.ram import RamTier

pytestmark = [pytest.mark.real, pytest.mark.slow]

TEXT = "The lamp is kept in box 4, the rope in box 9 and the book in box 2. " * 8
QUESTIONS = ("Which box holds the rope?", "Which box holds the book?")


def decoded(loaded, prompt, kv_bits, prefix_cache=None):
    eos = frozenset(loaded.tokenizer.eos_token_ids)
    run = loaded.run(
        Request(prompt, 12, eos), PhaseTimer(), kv_bits=kv_bits, prefix_cache=prefix_cache
    )
    tokens = [token for part in run.tokens() for token in part]
    stats = run.stats
    return (tokens, stats.rounds, stats.drafted, stats.accepted, stats.positions), run


@pytest.mark.parametrize(
    ("kind", "kv_bits"), [("none", 8), ("model", None), ("mtp", None), ("dflash", None)]
)
def test_a_second_question_and_a_second_turn(kind, kv_bits, smollm2):
    from benchmarks import harness
    from benchmarks.parity import session

    loaded = session(kind)
    kept = PrefixCache(key_of(loaded, kv_bits), RamTier(1 << 32))
    first, *others = (harness.rendered(loaded.tokenizer, TEXT + q) for q in QUESTIONS)
    (answer, *_), run = decoded(loaded, first, kv_bits, kept)
    kept.keep(run.outcome.entries())
    turn = loaded.tokenizer.encode("\n<|im_start|>user\nAnd the lamp?<|im_end|>\n")
    for prompt in (first, *others, [*first, *answer, *turn]):
        cold, _ = decoded(loaded, prompt, kv_bits)
        warm, run = decoded(loaded, prompt, kv_bits, kept)
        assert warm == cold
        assert run.outcome.cached > 100
