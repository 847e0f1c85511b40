"""The cache covers exactly the committed tokens, whatever was verified and rejected before."""

import gc
import random

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import ArraysCache, ConcatenateKVCache, KVCache, RotatingKVCache

from fixtures import zoo
from llm_specdec.engine.rollback import RollbackCache, WindowKVCache
from llm_specdec.errors import UnsupportedError

RECURRENT = ("qwen3_5", "qwen3_next", "mamba2", "nemotron_h", "falcon_h1", "lfm2", "rwkv7")


def forward(model, cache, tokens):
    cache.before_forward(len(tokens))
    return model(mx.array([tokens]), cache=cache.layers)[0]


def reference(model, tokens):
    """Logits after each token, from one forward of mlx-lm's own cache over all of them."""
    cache = (
        model.make_cache() if hasattr(model, "make_cache") else [KVCache() for _ in model.layers]
    )
    return mx.concatenate([model(mx.array([[t]]), cache=cache)[0] for t in tokens])


def close(a, b):
    return mx.allclose(a, b, rtol=1e-3, atol=2e-3).item()


@pytest.fixture(scope="module")
def text():
    rng = random.Random(7)
    return [rng.randrange(3, zoo.VOCAB) for _ in range(64)]


@pytest.mark.parametrize("prompt", [5, 3 * zoo.WINDOW])
@pytest.mark.parametrize("family", zoo.FAMILIES)
def test_rejected_drafts_leave_no_trace(family, prompt, text):
    """Verify passes of 1 to 6 tokens, of which some prefix stays, before, while and after a
    window fills: the logits equal those of plain decoding one token at a time."""
    model, _ = zoo.build(family)
    expected = reference(model, text)
    rng = random.Random(prompt)
    cache = RollbackCache(model, max_draft=5)
    assert close(forward(model, cache, text[:prompt])[-1], expected[prompt - 1])
    while cache.length < len(text) - 6:
        base, drafted = cache.length, rng.randrange(0, 6)
        accepted = rng.randrange(0, drafted + 1)
        wrong = [rng.randrange(3, zoo.VOCAB) for _ in range(drafted - accepted)]
        rows = forward(model, cache, text[base : base + 1 + accepted] + wrong)
        assert close(rows[: accepted + 1], expected[base : base + accepted + 1])
        cache.rollback(base + accepted + 1)
        cache.rollback(base + accepted + 1)
        assert cache.length == base + accepted + 1


@pytest.mark.parametrize("kv_bits", [None, 8])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_keys_and_values_can_be_read_as_the_target_attends_to_them(family, kv_bits, text):
    """After every rejected draft, before, while and after a window fills; one that was restored
    has as many rows once a token was read."""
    model, _ = zoo.build(family)
    every = [KVCache() for _ in model.layers]
    model(mx.array([text]), cache=every)
    cache = RollbackCache(model, kv_bits=kv_bits, kv_group_size=32, max_draft=3)

    def check(cache, length):
        for i, theirs in enumerate(every):
            rows = zoo.WINDOW if isinstance(cache.layers[i], WindowKVCache) else None
            first = max(0, length - zoo.WINDOW) if rows else 0
            apart = 0.3 if kv_bits else 1e-4  # they are of the size of 4
            for ours, whole in zip(
                cache.keys_and_values(i, rows), (theirs.keys, theirs.values), strict=True
            ):
                assert ours.shape[2] == length - first
                assert mx.allclose(ours, whole[..., first:length, :], rtol=0.0, atol=apart)

    for length in range(1, len(text)):
        forward(model, cache, [text[length - 1], 5, 6, 7])
        cache.rollback(length)
        check(cache, length)
    again = RollbackCache(model, kv_bits=kv_bits, kv_group_size=32, max_draft=3)
    again.load_state(cache.state(), cache.length)
    forward(model, again, text[-1:])
    check(again, len(text))


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5", "llama4"])
def test_a_forward_can_be_undone_and_done_again(family, text):
    """The plain lane runs one step ahead; an interrupt may undo what was kept before."""
    model, _ = zoo.build(family)
    expected = reference(model, text)
    cache = RollbackCache(model, max_draft=4)
    forward(model, cache, text[:20])
    forward(model, cache, text[20:21])
    cache.rollback(20)
    forward(model, cache, text[20:25])
    cache.rollback(23)
    cache.rollback(22)
    assert close(forward(model, cache, text[22:26]), expected[22:26])


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5", "llama4", "rwkv7"])
def test_several_forwards_can_be_undone(family, text, monkeypatch):
    """The plain lane is interrupted two steps ahead; a drafter takes back all its tokens, also
    right after a window dropped its old rows."""
    monkeypatch.setattr(WindowKVCache, "spare", 3)
    model, _ = zoo.build(family)
    expected = reference(model, text)
    cache = RollbackCache(model, max_draft=4, forwards=4)
    forward(model, cache, text[:20])
    for base in range(20, 50, 3):
        assert close(forward(model, cache, text[base : base + 3]), expected[base : base + 3])
        for wrong in (5, 6, 7):
            forward(model, cache, [wrong])
        cache.rollback(base + 4)
        cache.rollback(base + 3)


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5", "falcon_h1"])
def test_an_interrupted_forward_is_undone(family, text):
    """Ctrl-C inside the model leaves early layers ahead of late ones."""
    model, _ = zoo.build(family)
    expected = reference(model, text)
    cache = RollbackCache(model, max_draft=4)
    forward(model, cache, text[:20])

    class Interrupt(Exception):
        pass

    def stop(*call):
        raise Interrupt

    from llm_specdec.engine.taps import decoder_layers, observe

    remove = observe(decoder_layers(model)[0], stop)
    with pytest.raises(Interrupt):
        forward(model, cache, text[30:34])
    remove()
    cache.rollback(20)
    assert close(forward(model, cache, text[20:24]), expected[20:24])


def test_a_recurrent_state_cannot_go_back_further_than_its_forwards(text):
    model, _ = zoo.build("qwen3_5")
    cache = RollbackCache(model, max_draft=4, forwards=1)
    forward(model, cache, text[:20])
    forward(model, cache, text[20:23])
    assert cache.can_rollback(21) and cache.can_rollback(20) and not cache.can_rollback(19)
    with pytest.raises(ValueError, match="covers 23 tokens and cannot go to 19"):
        cache.rollback(19)
    assert cache.length == 23


def test_inputs_of_a_prefill_chunk_are_not_kept(text):
    model, _ = zoo.build("qwen3_5")
    cache = RollbackCache(model, max_draft=4)
    forward(model, cache, text[:20])
    assert cache.can_rollback(0) and not cache.can_rollback(10)


def test_a_dropped_cache_takes_its_captures_off_the_model():
    model, _ = zoo.build("qwen3_5")
    module = model.layers[0].linear_attn
    plain = type(module)
    first, second = RollbackCache(model), RollbackCache(model)
    assert len(type(module).observers) == 2
    first.close()
    assert type(module) is not plain
    del second
    gc.collect()
    assert type(module) is plain
    assert all(type(m) is type(model.layers[0]) for m in model.layers)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3", "qwen3_5"])
def test_quantised_kv_is_rolled_back(family, text):
    model, _ = zoo.build(family)
    once = RollbackCache(model, kv_bits=8, kv_group_size=32)
    expected = mx.concatenate([forward(model, once, [t]) for t in text[:40]])
    cache = RollbackCache(model, kv_bits=8, kv_group_size=32)
    forward(model, cache, text[:10])
    for base in range(10, 34, 3):
        rows = forward(model, cache, [*text[base : base + 3], 5, 6])
        assert close(rows[:3], expected[base : base + 3])
        cache.rollback(base + 3)
    plain = RollbackCache(model)
    forward(model, plain, text[:34])
    assert cache.nbytes < plain.nbytes


@pytest.mark.parametrize("family", ["gpt_oss", "deepseek_v3"])
def test_kv_bits_that_a_target_cannot_use_are_refused_at_once(family):
    model, _ = zoo.build(family)
    with pytest.raises(UnsupportedError, match="kv_bits 4 does not work with this target"):
        RollbackCache(model, kv_bits=4, kv_group_size=64)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(ConcatenateKVCache, "ConcatenateKVCache"), (lambda: RotatingKVCache(8, keep=2), "Rotating")],
)
def test_an_unknown_cache_is_refused_by_name(kind, name, monkeypatch):
    model, _ = zoo.build("llama")
    monkeypatch.setattr(type(model), "make_cache", lambda self: [kind(), kind()])
    with pytest.raises(UnsupportedError, match=name):
        RollbackCache(model)


def test_a_recurrent_state_that_no_module_owns_is_refused(monkeypatch):
    model, _ = zoo.build("llama")
    monkeypatch.setattr(type(model), "make_cache", lambda self: [KVCache(), ArraysCache(1)])
    monkeypatch.setattr(type(model), "__call__", lambda self, tokens, cache: tokens)
    with pytest.raises(UnsupportedError, match="ArraysCache"):
        RollbackCache(model)


@pytest.mark.parametrize("kv_bits", [None, 8])
@pytest.mark.parametrize("family", ["llama", "gemma3", "llama4", *RECURRENT])
def test_a_saved_state_goes_on_as_if_never_left(family, kv_bits, text):
    model, _ = zoo.build(family)
    cache = RollbackCache(model, kv_bits=kv_bits, kv_group_size=32, max_draft=4)
    forward(model, cache, text[:37])
    forward(model, cache, text[37:40])
    cache.rollback(39)
    warm = RollbackCache(model, kv_bits=kv_bits, kv_group_size=32, max_draft=4)
    warm.load_state(cache.state(), 39)
    assert warm.length == 39
    for base in (39, 42):
        tokens = [*text[base : base + 3], 7]
        assert close(forward(model, warm, tokens), forward(model, cache, tokens))
        warm.rollback(base + 3)
        cache.rollback(base + 3)
    assert close(forward(model, warm, text[45:46]), forward(model, cache, text[45:46]))


def test_an_empty_cache_can_be_saved(text):
    model, _ = zoo.build("qwen3_5")
    warm = RollbackCache(model)
    warm.load_state(RollbackCache(model).state(), 0)
    assert close(forward(model, warm, text[:9]), forward(model, RollbackCache(model), text[:9]))


@pytest.mark.parametrize("chunks", [[1] * 60, [40, 1, 1, 3, 9, 1], [5, 9, 1, 1, 1, 30, 2, 2]])
@pytest.mark.parametrize("window_size", [None, 5])
@pytest.mark.parametrize("return_array", [False, True])
def test_a_window_shows_what_a_rotating_cache_shows(chunks, window_size, return_array):
    """Which positions each query sees, for every mask that a model may ask for."""
    ours, theirs = WindowKVCache(8, slack=2), RotatingKVCache(8)
    ours.spare = 4
    position = 0
    for n in chunks:
        mask_args = {"window_size": window_size, "return_array": return_array}
        masks = [c.make_mask(n, **mask_args) for c in (ours, theirs)]
        new = mx.arange(position, position + n, dtype=mx.float32)[None, None, :, None]
        seen = [
            _seen(mask, c.update_and_fetch(new, new)[0], n)
            for c, mask in zip((ours, theirs), masks, strict=True)
        ]
        position += n
        assert seen[0] == seen[1]
        assert ours.keys is not None and ours.keys.shape[2] <= 8 + 40 + 4 + 2


def _seen(mask, keys, n):
    positions = keys[0, 0, :, 0].tolist()
    rows = len(positions)
    if mask is None:
        allowed = [[True] * rows] * n
    elif isinstance(mask, str):
        allowed = [[j <= rows - n + i for j in range(rows)] for i in range(n)]
    else:
        allowed = np.array(mx.broadcast_to(mask, (n, rows))).tolist()
    return [sorted(p for p, a in zip(positions, row, strict=True) if a) for row in allowed]
