"""Any change of what a state depends on is another key."""

import json
import os
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import pytest

from fixtures import zoo
from llm_specdec.engine.session import Session, Weights
from llm_specdec.engine.states import Entry
from llm_specdec.engine.target import Target
from llm_specdec.prefix_cache import keys
from llm_specdec.prefix_cache.keys import Key
from llm_specdec.prefix_cache.ram import RamTier


@pytest.fixture
def target(tmp_path):
    return zoo.write("llama", tmp_path / "target")


@pytest.fixture
def drafter(tmp_path):
    return zoo.write("llama", tmp_path / "drafter", seed=2)


def flip(folder: Path) -> None:
    """Change one byte where no fingerprint samples."""
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)


def rewrite(folder: Path):
    """Other weights of the same shapes."""
    zoo.write("llama", folder, seed=3)


def requantise(folder: Path):
    config = json.loads((folder / "config.json").read_text())
    config["quantization"] = {"bits": 4, "group_size": 64}
    (folder / "config.json").write_text(json.dumps(config))


CHANGES = {
    "weights": rewrite,
    "one byte": flip,
    "an adapter": lambda folder: (folder / "adapters.safetensors").write_bytes(b"adapter"),
    "quantisation": requantise,
}


def digest(folder, template="{{ messages }}"):
    return Key(keys.target_parts(folder, json.dumps(template))).digest


@pytest.mark.parametrize("change", CHANGES)
def test_another_target_is_another_key(target, change):
    before = digest(target)
    assert digest(target) == before
    CHANGES[change](target)
    assert digest(target) != before


@pytest.mark.parametrize("change", ["weights", "one byte"])
def test_another_drafter_is_another_key(drafter, change):
    def parts():
        return keys.drafter_parts("model", drafter, None, None, "")

    before = parts()
    CHANGES[change](drafter)
    assert parts() != before


def test_sampled_weights_tell_without_dates(target):
    path = target / "model.safetensors"
    before, status = digest(target), path.stat()
    rewrite(target)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest(target) != before


def test_the_folders_name_and_hidden_files_play_no_part(target, tmp_path):
    before = digest(target)
    (target / ".cache").mkdir()
    (target / ".cache" / "lock").write_text("")
    assert digest(target.rename(tmp_path / "moved")) == before


def test_another_template_is_another_key(target):
    templates = ("{{ messages }}", "{{ messages[0] }}", None, {"default": "{{ messages }}"})
    assert len({digest(target, template) for template in templates}) == 4


@pytest.mark.parametrize("package", ["mlx", "mlx-lm"])
def test_another_version_is_another_key(target, package, monkeypatch):
    before = digest(target)
    monkeypatch.setattr(keys, "version", lambda name: "0" if name == package else version(name))
    assert digest(target) != before


def test_another_format_is_another_key(target, monkeypatch):
    before = digest(target)
    monkeypatch.setattr(keys, "FORMAT", "0")
    assert digest(target) != before


def test_every_way_to_draft_has_a_key_of_its_own(drafter):
    lanes = [
        ("none", None, None, None, ""),
        ("lookup", None, None, None, ""),
        ("mtp", None, None, None, ""),
        ("mtp", None, None, None, "last_layer"),
        ("model", drafter, None, None, ""),
        ("dflash", drafter, None, None, ""),
        ("dflash", drafter, 4, 64, ""),
        ("dflash", drafter, 4, 32, ""),
        ("dflash", drafter, 8, 64, ""),
    ]
    assert len({Key(keys.drafter_parts(*lane)).digest for lane in lanes}) == len(lanes)


def test_kv_bits_are_part_of_the_key(target):
    model, config = zoo.build("llama")
    session = Session(Weights(target), Target(model, config, target), None)
    by_bits = [keys.key_of(session, bits) for bits in (None, 4, 8)]
    tier = RamTier(1 << 20)
    tier.put(by_bits[0], Entry((1, 2, 3), [mx.zeros((1,))], [], exact=False))
    assert [bool(tier.longest(key, [1, 2, 3])) for key in by_bits] == [True, False, False]


def test_a_key_depends_on_every_part_and_not_on_their_order():
    key = Key({"target": "a", "mlx": "0.32"})
    assert key.digest == Key({"mlx": "0.32", "target": "a"}).digest
    others = [{"target": "b", "mlx": "0.32"}, {"target": "a", "mlx": "0.33"}, {"target": "a"}]
    assert len({key.digest, *(Key(parts).digest for parts in others)}) == 4
