"""Costs are measured over caches that look as if a long context had been read."""

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.drafters.model.drafter import ModelDrafter
from llm_specdec.engine import costs
from llm_specdec.engine import measure as measuring
from llm_specdec.engine.costs import timed
from llm_specdec.engine.policy import Auto, Limits
from llm_specdec.engine.rollback import RollbackCache
from llm_specdec.engine.target import Target
from tests.support.simulated_device import Device


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5", "deepseek_v3"])
def test_a_stretched_state_has_the_shapes_of_a_read_one(family):
    target = Target(*zoo.build(family))
    short, long = RollbackCache(target.model), RollbackCache(target.model)
    mx.eval(target.forward(mx.arange(4), short), target.forward(mx.arange(60), long))
    assert [a.shape for a in short.stretched(60)] == [a.shape for a in long.state()]
    filled = RollbackCache(target.model)
    filled.load_state(short.stretched(60), 60)
    assert target.forward(mx.array([1]), filled).shape == (1, target.vocab_size)


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_every_width_and_length_is_measured_and_the_model_left_as_it_was(family):
    target = Target(*zoo.build(family))
    target.config["max_position_embeddings"] = 256
    drafter = ModelDrafter(target, target.vocab_size)
    loaded = SimpleNamespace(target=target, drafter=drafter)
    parts = dict(measuring.measure(loaded, drafts=4, longest=6))
    assert list(parts) == ["verify 0", "draft 0", "verify 1", "draft 1"]
    known = {part: parts[part] for part in ("verify 0", "draft 0", "verify 1")}
    assert [part for part, _ in measuring.measure(loaded, 4, 6, known=known)] == ["draft 1"]
    costs = measuring.costs(loaded, parts)
    assert [set(curve) for curve in costs.verify] == [{1, 2, 3, 4, 5, 7}, {1, 2, 4, 7}]
    assert all(min(curve.values()) > 0 for curve in costs.verify)
    assert [set(curve) for curve in costs.draft["model"]] == [{1, 2, 4}] * 2
    assert costs.round("model", 4, 128) > costs.round("lookup", 4, 128)
    assert costs.contexts[0] < costs.contexts[1]


def test_the_least_time_of_a_pass_counts_and_the_first_turn_does_not():
    class Clock:
        now = 0.0
        seconds = iter([9.0, 9.0, 5.0, 2.0, 3.0, 4.0])

        def __call__(self):
            return self.now

    clock = Clock()

    def run():
        clock.now += next(clock.seconds)

    assert timed({1: run, 2: run}, repeats=2, clock=clock) == {1: 3.0, 2: 2.0}


def test_what_runs_before_a_pass_is_not_in_its_time():
    now = 0.0

    def spend(seconds):
        def run():
            nonlocal now
            now += seconds

        return run

    found = timed({1: spend(2.0)}, repeats=2, before=spend(7.0), clock=lambda: now)
    assert found == {1: 2.0}


@pytest.mark.parametrize(
    ("build", "run"), [(4.0, 27.0), (5.0, 60.0), (2.5, 6.0), (1.5, 3.0), (8.0, 5.0)]
)
def test_a_plain_step_costs_what_one_of_many_in_a_row_does(monkeypatch, build, run):
    """Timed as two in a row, half of one graph build used to count: 7 to 25 % too much."""
    device: Any = Device(build, lambda width: run + width)
    monkeypatch.setattr(measuring, "mx", device)
    monkeypatch.setattr(costs, "mx", device)
    monkeypatch.setattr(measuring, "timed", lambda passes: timed(passes, clock=device.clock))
    curve = measuring._verify_curve(device, device, 128, [2, 4])
    assert curve[1] == pytest.approx(max(build, run + 1), rel=0.03)
    assert curve[4] == pytest.approx(build + run + 4, rel=0.03)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(measuring, "_on_gpu", lambda: True)
    monkeypatch.setattr(measuring, "FARTHEST", 512)
    monkeypatch.setattr(measuring, "CONTEXTS", (64, 128))


def on(target, positions):
    target.config["max_position_embeddings"] = positions
    return SimpleNamespace(target=target, drafter=None)


def test_on_a_gpu_every_width_is_measured_at_a_third_context_too(gpu):
    """Its attention takes other kernels for more rows and for longer contexts."""
    loaded = on(Target(*zoo.build("llama")), 1024)
    parts = dict(measuring.measure(loaded, drafts=0, longest=6))
    found = measuring.costs(loaded, parts)
    assert found.contexts == (64, 128, 512)
    assert [set(curve) for curve in found.verify] == [{1, 2, 3, 4, 5, 7}] * 3


def test_a_model_of_few_positions_has_no_third_context(gpu):
    assert measuring.contexts(on(Target(*zoo.build("llama")), 512).target) == (64, 128)


def test_a_third_context_that_memory_has_no_room_for_is_left_out(gpu, monkeypatch):
    def full(self, length):
        if length == 512:
            raise RuntimeError("[malloc] out of memory")
        return stretched(self, length)

    stretched = RollbackCache.stretched
    monkeypatch.setattr(RollbackCache, "stretched", full)
    loaded = on(Target(*zoo.build("llama")), 1024)
    parts = dict(measuring.measure(loaded, drafts=0, longest=6))
    assert set(parts) == set(measuring.names(loaded, 0))
    assert measuring.costs(loaded, parts).contexts == (64, 128)


@pytest.mark.parametrize("accepted", [0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("cliff", [2, 5, 8])
def test_auto_takes_a_length_within_three_percent_of_the_best(monkeypatch, accepted, cliff):
    """On a device with a queue whose passes cost more beyond so many rows."""

    def run(width):
        return 27.0 + 0.8 * width + 15.0 * (width > cliff)

    device: Any = Device(4.0, run)
    monkeypatch.setattr(measuring, "mx", device)
    monkeypatch.setattr(costs, "mx", device)
    monkeypatch.setattr(measuring, "timed", lambda passes: timed(passes, clock=device.clock))
    curve = measuring._verify_curve(device, device, 128, [*measuring.WIDTHS[:-1], 8])
    known = costs.Costs((128, 2048), (curve, curve), {})
    policy = Auto(known, Limits({"lookup": 7}), [(round(1000 * accepted), 1000)] * 7)

    def rate(length):
        seconds = 4.0 + run(length + 1) if length else max(4.0, run(1))
        return sum(accepted**i for i in range(length + 1)) / seconds

    length = policy.pick(["lookup"], 128).length
    assert rate(length) >= 0.97 * max(rate(n) for n in range(8))
