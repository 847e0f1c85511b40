"""A checkpoint whose tensors are not what its architecture has, of every kind with tensors of its
own: refused in one line that names the tensor, before any weight is read."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from fixtures import assistant_checkpoints as assistants
from fixtures import dflash_checkpoints as dflash
from fixtures import dspark_checkpoints as dspark
from fixtures import eagle3_checkpoints as eagle3
from llm_specdec.drafters import recognise
from llm_specdec.drafters.table import KINDS
from llm_specdec.errors import CheckpointError

Tensors = dict[str, Any]
DFLASH, DFLASH2, DSPARK, GEMMA = dflash.config(), dflash.config(2), dspark.config(), dspark.gemma()
ASSISTANT = assistants.config(assistants.target_text("E4B"))
EAGLE3 = {name: eagle3.config(name, 32, 96, 60, [0, 1, 2]) for name in eagle3.DIALECTS}
SOUND: dict[str, tuple[str, dict[str, Any], Tensors]] = {
    "DFlash": ("dflash", DFLASH, dflash.weights(DFLASH)),
    "DFlash 2": ("dflash", DFLASH2, dflash.weights(DFLASH2)),
    "DSpark": ("dspark", DSPARK, dspark.weights(DSPARK)),
    "DSpark of Gemma's layers": ("dspark", GEMMA, dspark.weights(GEMMA)),
    **{f"EAGLE-3, {d}": ("eagle3", raw, eagle3.weights(raw, 32)) for d, raw in EAGLE3.items()},
    "assistant": ("assistant", ASSISTANT, assistants.weights(ASSISTANT)),
}


def lacks(tensors: Tensors, name: str) -> None:
    del tensors[name]


def holds(tensors: Tensors, name: str) -> None:
    tensors[name.replace("o_proj", "sinks")] = np.ones(4, np.float32)


def is_cut(tensors: Tensors, name: str) -> None:
    tensors[name] = tensors[name][:-1]


def is_one_value(tensors: Tensors, name: str) -> None:
    tensors[name] = np.float32(1)


@pytest.mark.parametrize("damage", [lacks, holds, is_cut, is_one_value])
@pytest.mark.parametrize("kind", SOUND)
def test_tensors_that_do_not_fit_are_refused_by_name(tmp_path, monkeypatch, kind, damage):
    name, raw, tensors = SOUND[kind]
    changed = dict(tensors)
    place = next(name for name in changed if name.endswith("self_attn.o_proj.weight"))
    damage(changed, place)
    folder = dflash.save(tmp_path / "d", raw, changed)
    assert recognise.read(folder).kind == name
    monkeypatch.setattr(mx, "eval", lambda *arrays: pytest.fail("read weights"))
    with pytest.raises(CheckpointError, match=r"self_attn\.(o_proj|sinks)\.weight") as error:
        KINDS[name].check(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_one_is_accepted_without_reading_weights(tmp_path: Path, monkeypatch, kind):
    name, raw, tensors = SOUND[kind]
    folder = dflash.save(tmp_path / "d", raw, tensors)
    monkeypatch.setattr(mx, "eval", lambda *arrays: pytest.fail("read weights"))
    KINDS[name].check(folder)


@pytest.mark.parametrize("kind", SOUND)
def test_tensors_of_one_value_break_no_reading(tmp_path, kind):
    _, raw, tensors = SOUND[kind]
    for one in tensors:
        changed = tensors | {one: np.float32(1)}
        recognise.read(dflash.save(tmp_path / "d", raw, changed))
