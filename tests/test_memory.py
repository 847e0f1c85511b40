from pathlib import Path
from types import SimpleNamespace

import llm
import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec import memory
from llm_specdec.drafters import recognise
from llm_specdec.errors import ResourceError, UnsupportedError
from tests.support.checkpoints import qwen_head, trunk, write_model
from tests.support.command_line import write_registry


@pytest.fixture
def pair(tmp_path):
    target = recognise.read(write_model(tmp_path / "target"))
    return target, recognise.read(write_model(tmp_path / "drafter"))


def test_target_and_drafter_are_both_counted(pair):
    target, drafter = pair
    need = memory.estimate(target, drafter, 1000)
    assert need.target == need.drafter == target.weight_bytes
    assert need.target_cache == need.drafter_cache == 1024 * 2 * 64 * 2
    assert need.total == 2 * (need.target + need.target_cache)


def test_quantising_the_drafter_and_the_cache_lowers_the_need(pair):
    target, drafter = pair
    need = memory.estimate(target, drafter, 1000, kv_bits=8, drafter_bits=4)
    assert need.drafter == round(drafter.parameters * 4.5 / 8)
    assert need.target_cache == 1024 * 2 * 64 * (1 + 4 / 64)


def test_what_lies_in_memory_follows_the_group_size(pair):
    target, drafter = pair
    held = memory.resident(target.folder, drafter.folder, "model", 4, 32)
    assert held == target.weight_bytes + drafter.parameters * 5 // 8


def test_own_head_counts_with_its_cache(tmp_path):
    target = recognise.read(write_model(tmp_path, shapes=trunk() | qwen_head()))
    need = memory.estimate(target, None, 256)
    head = target.parts["mtp"]
    assert need.drafter == head.nbytes
    assert need.drafter_cache == 256 * 64 * 2
    assert memory.estimate(target, None, 256, lane="none").drafter == 0


def test_what_fits_passes(pair):
    need = memory.estimate(pair[0], pair[1], 1000)
    memory.check(need, memory.Budget(need.total, "free memory"))


def test_a_refusal_gives_figures_and_the_context_that_would_fit(pair):
    target, drafter = pair
    limit = memory.Budget(memory.estimate(target, drafter, 1024).total, "free memory")
    need = memory.estimate(target, drafter, 4096)
    with pytest.raises(ResourceError) as raised:
        memory.check(need, limit, lambda tokens: memory.estimate(target, drafter, tokens))
    assert "1,024 tokens would fit: lower context" in str(raised.value)
    assert "free memory is" in str(raised.value)
    assert str(need) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_weights_that_do_not_fit_are_not_blamed_on_the_context(pair):
    with pytest.raises(ResourceError, match="weights alone"):
        memory.check(memory.estimate(pair[0], pair[1], 256), memory.Budget(1, "free memory"))


def test_a_run_is_admitted_or_refused_from_files_alone(tmp_path, monkeypatch):
    folder = write_model(tmp_path)
    need = memory.admit(folder, None, 400, lane="none")
    assert need.total == memory.estimate(recognise.read(folder), None, 400).total
    monkeypatch.setattr(memory, "budget", lambda *_: memory.Budget(need.total - 1, "free memory"))
    with pytest.raises(ResourceError, match=r"400 tokens need .* 256 tokens would fit"):
        memory.admit(folder, None, 400, lane="none")


def test_a_prompt_that_cannot_fit_is_refused_before_weights_are_loaded(tmp_path, monkeypatch):
    write_registry(f'[pairings.tiny]\ntarget = "{zoo.write("llama", tmp_path / "target")}"\n')
    monkeypatch.setattr(memory, "budget", lambda *_: memory.Budget(2000, "free memory"))
    monkeypatch.setattr(
        "llm_specdec.backends.local.sessions.load", lambda weights: pytest.fail("loaded")
    )
    model = llm.get_model("tiny")
    with pytest.raises(llm.ModelError, match=r"\d{3} tokens need .* and free memory is 2 KB"):
        model.prompt("w1 " * 100, max_tokens=300).text()


def test_a_drafter_is_refused_as_a_target():
    dflash = Path(__file__).parents[1] / "fixtures" / "drafters" / "dflash2"
    with pytest.raises(UnsupportedError, match="a helper, never a target"):
        memory.admit(dflash, None, 100, lane="none")


def test_budget_without_a_gpu_is_free_memory_and_counts_what_is_resident():
    assert memory.free(10**15).nbytes > 10**15
    assert memory.budget().nbytes > 0


GB, GPU = 1 << 30, mx.DeviceType.gpu


@pytest.mark.parametrize(
    ("card", "limit", "free", "total"),
    [
        (True, 8 * GB, 8 * GB, 24 * GB),  # a card's states lie on the card
        (True, None, None, None),  # mlx computes on the CPU all the same
        (False, 8 * GB, None, None),
    ],
)
def test_states_count_against_the_memory_that_they_lie_in(monkeypatch, card, limit, free, total):
    from llm_specdec.engine.hardware import device

    machine = SimpleNamespace(available=50 * GB, total=64 * GB)
    monkeypatch.setattr("psutil.virtual_memory", lambda: machine)
    monkeypatch.setattr(memory, "_has_card", lambda: card)
    monkeypatch.setattr(device, "memory_limit", lambda resident, others: limit)
    monkeypatch.setattr(device, "card_memory", lambda: limit and 24 * GB)
    assert memory.of_states().nbytes == (free or 50 * GB)
    assert memory.total_for_states() == (total or 64 * GB)


@pytest.mark.parametrize("apple", [True, False])
@pytest.mark.parametrize(
    ("loaded", "in_use", "fits"),
    [
        ((False, False), 0, True),
        ((True, False), 1, True),  # a second prompt
        ((False, False), 1, False),  # another model, which stays
        ((True, False), 2, False),  # both
    ],
)
def test_weights_of_other_models_in_the_process_count(
    tmp_path, monkeypatch, apple, loaded, in_use, fits
):
    """The memory has room for one and a half models."""
    from llm_specdec.engine.hardware import device

    folder = write_model(tmp_path / "target")
    need = memory.estimate(recognise.read(folder), None, 256).total
    weights, room = recognise.read(folder).weight_bytes, need + need // 2
    free = {"free_memory": room - in_use * weights, "total_memory": 8 * need}
    info = {"max_recommended_working_set_size": room} if apple else free
    monkeypatch.setattr(memory, "_has_gpu", lambda: True)
    monkeypatch.setattr("mlx.core.default_device", lambda: SimpleNamespace(type=GPU))
    monkeypatch.setattr("mlx.core.get_cache_memory", lambda: 0)
    monkeypatch.setattr(device, "info", lambda: info)

    def admit():
        memory.admit(folder, None, 256, lane="none", loaded=loaded, in_use=in_use * weights)

    if fits:
        admit()
    else:
        with pytest.raises(ResourceError):
            admit()
