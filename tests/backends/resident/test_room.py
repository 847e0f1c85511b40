"""What idle workers hold counts as taken, and makes way."""

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from llm_specdec import memory
from llm_specdec.backends import Started, Text
from llm_specdec.backends.local import loading
from llm_specdec.backends.resident import control
from llm_specdec.backends.resident.control import Held
from llm_specdec.backends.resident.places import place_of
from llm_specdec.backends.resident.room import with_room
from llm_specdec.drafters import recognise
from llm_specdec.engine.hardware import device
from llm_specdec.errors import DoesNotFit, ResourceError
from llm_specdec.prefix_cache import process
from tests.support.checkpoints import write_model
from tests.support.plans import planned


def held(target, pid, idle=1.0, **status):
    known: dict[str, Any] = {"target": target, "busy": False, "idle_s": idle, "bytes": 9}
    return Held(place_of(target or ""), pid, known | status)


@pytest.fixture
def workers(monkeypatch):
    """Those that there are; one that is stopped is gone."""
    found: list[Held] = []
    monkeypatch.setattr(control, "workers", lambda: list(found))

    def stop(one):
        found.remove(one)
        return True

    monkeypatch.setattr(control, "stop", stop)
    return found


def test_on_apple_silicon_what_other_workers_hold_comes_off_the_working_set(
    tmp_path, monkeypatch, workers
):
    """Its limit is the same whatever other processes hold."""
    folder = write_model(tmp_path / "target")
    need = memory.estimate(recognise.read(folder), None, 256).total
    monkeypatch.setattr(memory, "_has_gpu", lambda: True)
    monkeypatch.setattr(mx, "default_device", lambda: SimpleNamespace(type=mx.DeviceType.gpu))
    monkeypatch.setattr(mx, "get_active_memory", lambda: 0)
    monkeypatch.setattr(device, "info", lambda: {"max_recommended_working_set_size": 3 * need})
    # What earlier tests left in the prefix cache of this process would make way.
    monkeypatch.setattr(process, "hot", lambda: SimpleNamespace(nbytes=0))
    plan = planned(folder, settings={"kv_bits": None})
    workers.append(held("/one", 1, bytes=2 * need))
    loading.admit(plan, 256)
    workers.append(held("/other", 2, bytes=need // 2))
    with pytest.raises(ResourceError, match="tokens need"):
        loading.admit(plan, 256)
    # The process that asks may be a worker itself: what it holds is known to it.
    monkeypatch.setattr("os.getpid", lambda: 2)
    loading.admit(plan, 256)


def test_where_free_memory_is_the_limit_no_worker_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "workers", lambda: pytest.fail("asked"))
    folder = write_model(tmp_path / "target")
    loading.admit(planned(folder, settings={"kv_bits": None}), 256)


def refused(times, started=False, missing=1):
    """An answer that does not fit at first."""
    left = [times]

    def answered():
        if started:
            yield Started()
        left[0] -= 1
        if left[0] >= 0:
            raise DoesNotFit("too large", missing)
        yield Text("hi")

    return answered


def test_the_worker_that_was_idle_the_longest_makes_way_first(workers):
    workers += [
        held("/late", 1, idle=1.0),
        held("/early", 2, idle=9.0),
        held("/busy", 3, idle=0.0, busy=True),
        held("/own", 4, idle=99.0),
        held(None, 5, idle=99.0),  # it holds nothing yet
        Held(place_of("/stuck"), 6, {}),
    ]
    assert list(with_room(refused(1), "/own")) == [Text("hi")]
    assert [one.pid for one in workers] == [1, 3, 4, 5, 6]
    with pytest.raises(ResourceError, match="too large"):
        list(with_room(refused(2), "/own"))
    assert [one.pid for one in workers] == [3, 4, 5, 6]


def test_nobody_makes_way_for_an_answer_that_began(workers):
    workers.append(held("/one", 1))
    with pytest.raises(ResourceError):
        list(with_room(refused(1, started=True)))
    assert len(workers) == 1


def test_nobody_makes_way_in_vain(workers):
    workers += [held("/one", 1), held("/other", 2)]
    with pytest.raises(DoesNotFit):
        list(with_room(refused(1, missing=19)))
    assert len(workers) == 2
    assert list(with_room(refused(1, missing=18))) == [Text("hi")]


def test_only_memory_has_others_make_way(workers):
    workers.append(held("/one", 1))

    def answered():
        raise ResourceError("ZeroDivisionError: by zero")
        yield

    with pytest.raises(ResourceError):
        list(with_room(answered))
    assert len(workers) == 1
