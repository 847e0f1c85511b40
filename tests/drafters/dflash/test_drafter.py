"""What the drafter keeps, what it forgets, and which checkpoints it loads."""

import threading
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from fixtures.dflash_checkpoints import HIDDEN, VOCAB, Lender, config, save, smaller_head, weights
from llm_specdec.drafters.common import shortlist
from llm_specdec.drafters.dflash import drafter as dflash
from llm_specdec.errors import CheckpointError, PairingError
from tests.support.dflash import (
    LAYOUTS,
    SLIDING,
    Recorder,
    conversation,
    proposed,
    tell,
)


@pytest.fixture
def loaded(tmp_path):
    def load(version=1, **changes):
        raw = config(version, **changes)
        return dflash.load(save(tmp_path / "drafter", raw, weights(raw)), Lender())

    return load


def told(drafter, stop, step=7):
    tokens, taps = conversation(400)
    drafter.start(tokens[0])
    for start in range(0, stop, step):
        tell(drafter, tokens, taps, start, min(stop, start + step))
    return tokens, taps


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", [1, 2])
def test_nothing_of_a_rejected_block_remains(loaded, version, layout):
    drafter = loaded(version, **LAYOUTS[layout])
    told(drafter, 30)
    undisturbed = [np.array(a) for a in drafter.state()]
    first, again = Recorder(), Recorder()
    proposed(drafter, 5, first)
    proposed(drafter, 2, Recorder())
    for before, after in zip(undisturbed, drafter.state(), strict=True):
        np.testing.assert_array_equal(before, np.array(after))
    assert proposed(drafter, 5, again)
    np.testing.assert_array_equal(first.rows, again.rows)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [1, 5, 40])
def test_a_restored_drafter_proposes_as_one_told_everything(loaded, layout, length):
    drafter = loaded(2, **LAYOUTS[layout])
    tokens, taps = told(drafter, length)
    kept = [mx.array(np.array(a)) for a in drafter.state()]
    tell(drafter, tokens, taps, length, length + 9)
    cold = Recorder()
    proposed(drafter, 5, cold)

    restored = loaded(2, **LAYOUTS[layout])
    restored.load_state(kept, tokens[: length + 1])
    tell(restored, tokens, taps, length, length + 9)
    warm = Recorder()
    proposed(restored, 5, warm)
    np.testing.assert_allclose(warm.rows, cold.rows, atol=1e-4)


def test_state_has_exact_lengths_and_no_slack(loaded):
    drafter = loaded()
    told(drafter, 30)
    proposed(drafter, 5, Recorder())
    assert {array.shape for array in drafter.state()} == {(1, 2, 30, 16)}


def test_state_of_a_drafter_told_one_token_is_empty_and_restores(loaded):
    drafter = loaded()
    drafter.start(3)
    assert {array.shape for array in drafter.state()} == {(1, 2, 0, 16)}
    drafter.load_state(drafter.state(), [3])
    assert len(proposed(drafter, 4, Recorder())) == 4


def test_start_forgets_the_run_before(loaded):
    drafter = loaded()
    told(drafter, 60)
    proposed(drafter, 5, Recorder())
    told(drafter, 12)
    again = Recorder()
    proposed(drafter, 5, again)
    fresh, first = loaded(), Recorder()
    told(fresh, 12)
    proposed(fresh, 5, first)
    np.testing.assert_array_equal(first.rows, again.rows)


@pytest.mark.parametrize("step", [1, 11, 400])
def test_a_sliding_drafter_keeps_no_more_than_its_window(loaded, step):
    drafter = loaded(**SLIDING)
    told(drafter, 390, step)
    assert {array.shape[2] for array in drafter.state()} == {SLIDING["sliding_window"] - 1}
    assert drafter._cache.keys[0].shape[2] < 300


def test_prefill_projects_no_row_outside_the_window(loaded):
    drafter = loaded(**SLIDING)
    seen = []
    context = drafter.model.context

    def counting(rows):
        seen.append(rows.shape[0])
        return context(rows)

    object.__setattr__(drafter.model, "context", counting)
    told(drafter, 400, 200)
    drafter.state()
    assert seen
    assert max(seen) <= SLIDING["sliding_window"] - 1


def test_rows_told_while_parked_are_taken_in_before_they_pile_up(loaded):
    drafter = loaded()
    told(drafter, 390, 1)
    assert sum(rows.shape[0] for rows in drafter._waiting) < 256
    parked, busy = Recorder(), Recorder()
    proposed(drafter, 5, parked)
    at_once = loaded()
    told(at_once, 390, 390)
    proposed(at_once, 5, busy)
    np.testing.assert_allclose(parked.rows, busy.rows, atol=1e-4)


def test_buffers_are_not_reallocated_every_round(loaded):
    drafter = loaded()
    tokens, taps = told(drafter, 10)
    rooms = []
    for start in range(10, 390, 2):
        tell(drafter, tokens, taps, start, start + 2)
        proposed(drafter, 5, Recorder(plain=True))
        rooms.append(drafter._cache.keys[0].shape[2])
    assert len(set(rooms)) <= 3


def test_a_proposal_never_exceeds_the_block(loaded):
    drafter = loaded()
    told(drafter, 5)
    assert drafter.max_draft == 5
    assert len(proposed(drafter, 50, Recorder())) == 5


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("version", [1, 2])
def test_quantising_on_load_shrinks_the_matrices_and_stays_close(tmp_path, version, bits):
    raw = config(version, hidden_size=64, conv_group_size=16) if version == 2 else config()
    folder = save(tmp_path / "d", raw, weights(raw))
    lender = Lender(raw["hidden_size"])
    drafter = dflash.load(folder, lender, bits=bits, group_size=32)
    attention = drafter.model.layers[0].self_attn
    assert attention.q_proj.weight.dtype == mx.uint32
    assert attention.q_proj.bits == bits

    rng = np.random.default_rng(0)
    rows = {tap: mx.array(rng.normal(0, 1, (9, raw["hidden_size"]))) for tap in (0, 2)}
    full = dflash.load(folder, lender)
    seen = []
    for one in (full, drafter):
        one.start(1)
        one.extend(list(range(9)), {tap: row.astype(mx.float32) for tap, row in rows.items()})
        recorder = Recorder()
        hidden = one.model(lender.embed(mx.array([8, 5, 5])), one._context(), one._cache)
        recorder.block(hidden)
        seen.append(np.array(recorder.rows))
    error = np.linalg.norm(seen[0] - seen[1]) / np.linalg.norm(seen[0])
    assert 0 < error < (0.6 if bits == 4 else 0.05)


def test_a_checkpoint_stored_in_8_bits_loads_and_is_not_quantised_twice(tmp_path):
    raw = config(hidden_size=64, head_dim=16, intermediate_size=64)
    plain = weights(raw)
    stored: dict[str, Any] = {}
    for name, value in plain.items():
        if value.ndim == 2:
            w, scales, biases = mx.quantize(mx.array(value), 32, 8)
            base = name.removesuffix(".weight")
            stored |= {name: w, f"{base}.scales": scales, f"{base}.biases": biases}
        else:
            stored[name] = mx.array(value)
    raw["quantization"] = {"bits": 8, "group_size": 32}
    folder = save(tmp_path / "d", raw, stored)
    drafter = dflash.load(folder, Lender(64))
    assert drafter.model.layers[1].mlp.gate_up_proj.bits == 8
    with pytest.raises(CheckpointError, match="stored quantised already"):
        dflash.load(folder, Lender(64), bits=4)


def test_weights_take_the_targets_precision(tmp_path):
    class Half(Lender):
        def embed(self, tokens):
            return super().embed(tokens).astype(mx.bfloat16)

        def head(self, hidden, rows=None):
            assert hidden.dtype == mx.bfloat16
            return hidden @ mx.array(self.matrix).astype(mx.bfloat16).T

    raw = config(2)
    drafter = dflash.load(save(tmp_path / "d", raw, weights(raw)), Half())
    tokens, taps = conversation()
    drafter.start(tokens[0])
    rows = mx.array(taps[:8]).astype(mx.bfloat16)
    drafter.extend(tokens[1:9], {0: rows[:, :HIDDEN], 2: rows[:, HIDDEN:]})
    assert len(proposed(drafter, 4, Recorder(plain=True))) == 4
    assert {array.dtype for array in drafter.state()} == {mx.bfloat16}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("plain", [True, False])
def test_a_shortlist_keeps_drafts_among_the_common_tokens(tmp_path, monkeypatch, version, plain):
    """And draws them as a drafter would whose other tokens have no chance."""
    common = 20
    monkeypatch.setattr(shortlist.Shortlist, "__init__", _first(common))

    class Never(Lender):
        def head(self, hidden, rows=None):
            logits = super().head(hidden)
            unlisted = mx.arange(logits.shape[-1]) >= common
            return mx.where(unlisted, -1e30, logits)

    raw = config(version)
    folder = save(tmp_path / "d", raw, weights(raw))
    tokens, taps = conversation()
    found = []
    for drafter in (dflash.load(folder, Lender(), shortlist=True), dflash.load(folder, Never())):
        told = [token % common for token in tokens[:9]]
        drafter.start(told[0])
        rows = mx.array(taps[:8])
        drafter.extend(told[1:], {0: rows[:, :HIDDEN], 2: rows[:, HIDDEN:]})
        found.append(proposed(drafter, 4, Recorder(plain=plain)))
    assert max(found[0]) < common
    assert found[0] == found[1]


def _first(common):
    def init(self, vocab_size):
        self._vocab, self._first, self._share = vocab_size, common, 1.0

    return init


@pytest.mark.parametrize("suffix", ["", ".weight"])
def test_codebooks_load_with_and_without_weight_in_their_name(tmp_path, suffix):
    raw = config(2)
    tensors = {
        f"{name}{suffix}" if name.endswith("codebook") else name: value
        for name, value in weights(raw).items()
    }
    dflash.load(save(tmp_path / "d", raw, tensors), Lender())


def reduced(raw, rows=40):
    head = smaller_head(raw, rows)
    tokens = head["d2t"] + np.arange(rows)
    return weights(raw) | head, tokens


@pytest.mark.parametrize("version", [1, 2])
def test_a_smaller_output_matrix_proposes_tokens_of_the_target(tmp_path, version):
    raw = config(version)
    tensors, tokens = reduced(raw)
    drafter = dflash.load(save(tmp_path / "d", raw, tensors), Lender())
    told(drafter, 20)
    seen = Recorder()
    drafts = proposed(drafter, 5, seen)
    assert set(drafts) <= set(tokens.tolist())
    assert proposed(drafter, 5, Recorder(plain=True)) == drafts
    for row in seen.rows:
        assert row.shape == (VOCAB,)
        assert set(np.flatnonzero(row > -1e3)) <= set(tokens.tolist())


def test_a_smaller_output_matrix_is_its_own_and_not_the_targets(tmp_path):
    raw = config()
    tensors, tokens = reduced(raw)
    drafter = dflash.load(save(tmp_path / "d", raw, tensors), Lender())
    told(drafter, 20)
    hidden = drafter.model(Lender().embed(mx.array([1, 5])), drafter._context(), drafter._cache)
    expected = np.array(hidden) @ tensors["lm_head.weight"].T
    told(drafter, 20)
    drafter._pending = 1
    seen = Recorder()
    proposed(drafter, 1, seen)
    np.testing.assert_allclose(seen.rows[0][tokens], expected[0], atol=1e-5)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda t: t.pop("d2t"), "d2t"),
        (lambda t: t.update(d2t=np.zeros(3, np.int64)), "3 entries"),
        (lambda t: t.update(d2t=np.full(40, 90, np.int64)), "vocabulary"),
        (lambda t: t.pop("fc.weight"), "fc"),
        (lambda t: t.update({"layers.0.extra.weight": np.zeros(3, np.float32)}), "extra"),
        (lambda t: t.update({"fc.weight": np.zeros((3, 3), np.float32)}), "fc"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(tmp_path, damage, named):
    raw = config()
    tensors, _ = reduced(raw)
    damage(tensors)
    with pytest.raises(CheckpointError, match=named) as error:
        dflash.load(save(tmp_path / "d", raw, tensors), Lender())
    assert "\n" not in str(error.value)


def test_a_folder_without_weights_or_with_broken_ones_is_refused(tmp_path):
    folder = save(tmp_path / "d", config(), weights(config()))
    (folder / "model.safetensors").write_bytes(b"not a tensor file")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        dflash.load(folder, Lender())
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="no safetensors"):
        dflash.load(folder, Lender())


def test_an_own_embedding_is_used_where_the_checkpoint_brings_one(tmp_path):
    raw = config()
    tensors = weights(raw)
    lender = Lender()
    tensors["embed_tokens.weight"] = Lender(seed=99).embedding
    own = dflash.load(save(tmp_path / "own", raw, tensors), lender)
    shared = dflash.load(save(tmp_path / "shared", raw, weights(raw)), Lender(seed=99))
    shared._head = lender.head
    rows = []
    for drafter in (own, shared):
        told(drafter, 12)
        seen = Recorder()
        proposed(drafter, 3, seen)
        rows.append(seen.rows)
    np.testing.assert_array_equal(rows[0], rows[1])


def test_a_target_of_another_width_is_refused_with_both_figures(tmp_path):
    raw = config()
    with pytest.raises(PairingError, match=r"32.*64"):
        dflash.load(save(tmp_path / "d", raw, weights(raw)), Lender(hidden=64))


def test_a_target_with_more_padding_than_the_codebooks_is_never_proposed_from_it(tmp_path):
    raw = config(2)
    drafter = dflash.load(save(tmp_path / "d", raw, weights(raw)), Lender(vocab=VOCAB + 300))
    told(drafter, 20)
    for plain in (True, False):
        assert max(proposed(drafter, 5, Recorder(plain))) < VOCAB


def test_a_drafter_loaded_by_one_thread_runs_on_another(loaded):
    """llm runs a model on a thread of its own; MLX ties what is not evaluated to a thread."""
    rope = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}
    drafter = loaded(2, rope_scaling=rope)
    found = []

    def run():
        told(drafter, 20)
        found.append(proposed(drafter, 4, Recorder()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(found[0]) == 4
