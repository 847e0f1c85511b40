"""Keys depend on seed, position and purpose, and on nothing else."""

import mlx.core as mx

from llm_specdec.engine.sampling.randomness import Purpose, key


def test_every_seed_position_and_purpose_has_its_own_key():
    keys = {
        tuple(mx.array(key(seed, position, purpose)).tolist())  # type: ignore[arg-type]
        for seed in (0, 1, 2**63 - 1)
        for position in range(200)
        for purpose in Purpose
    }
    assert len(keys) == 3 * 200 * len(Purpose)


def test_global_random_state_is_neither_read_nor_changed():
    mx.random.seed(5)
    first = mx.random.uniform(key=key(0, 7, Purpose.TARGET)).item()
    before = mx.random.uniform().item()
    mx.random.seed(5)
    assert mx.random.uniform().item() == before
    assert mx.random.uniform(key=key(0, 7, Purpose.TARGET)).item() == first
