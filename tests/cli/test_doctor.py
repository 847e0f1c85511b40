import json
import subprocess
import sys
from importlib import metadata

import pytest

from llm_specdec import memory
from llm_specdec.bench import machine, store
from llm_specdec.checkpoint import fingerprint
from llm_specdec.drafters import recognise
from llm_specdec.engine.hardware import blas
from llm_specdec.prefix_cache.folder import Folder
from tests.support.checkpoints import LLAMA, trunk, write_json, write_model
from tests.support.command_line import specdec, write_registry


@pytest.fixture
def target(tmp_path):
    return write_model(tmp_path / "target")


def findings(level=None):
    data = json.loads(specdec("doctor", "--json").stdout)
    assert data["ok"] == all(f["level"] != "broken" for f in data["findings"])
    return [f for f in data["findings"] if level in (None, f["level"])]


def pairing(target, drafter="lookup", more=""):
    return f'[pairings.a]\ntarget = "{target}"\ndrafter = "{drafter}"\n{more}'


def test_a_healthy_setup_is_ok_and_exits_0(target):
    write_registry(pairing(target, more=f'fingerprints.target = "{fingerprint(target)}"\n'))
    done = specdec("doctor")
    assert done.exit_code == 0
    assert "ok       a: files are whole and fit each other" in done.stdout
    assert findings("broken") == []


def test_a_broken_registry_names_its_line_and_exits_1():
    write_registry("[pairings\n")
    done = specdec("doctor")
    assert done.exit_code == 1
    [found] = findings("broken")
    assert "specdec.toml" in found["what"]
    assert "line 1" in found["what"]
    assert found["fix"].startswith("$EDITOR")


def test_one_broken_pairing_leaves_the_others_checked(target):
    write_registry(pairing(target) + '[pairings.b]\ntargt = "x"\n')
    assert "targt" in findings("broken")[0]["what"]
    assert any(f["what"].startswith("a: files are whole") for f in findings("ok"))


def test_files_that_are_gone_are_broken(tmp_path):
    write_registry(pairing(tmp_path / "nowhere"))
    [found] = findings("broken")
    assert found["what"].startswith("a: target:")
    assert found["fix"] == "llm specdec move a --target FOLDER"


def test_files_that_changed_are_a_warning_with_the_command_to_add_anew(target):
    write_registry(pairing(target, more=f'fingerprints.target = "{fingerprint(target)}"\n'))
    write_json(target / "config.json", {**LLAMA, "rope_theta": 5})
    [found] = [f for f in findings("warning") if f["what"].startswith("a:")]
    assert "changed since it was added" in found["what"]
    assert found["fix"] == f"llm specdec add a --force --target {target} --drafter lookup"


def test_the_command_to_add_anew_keeps_a_drafter_quantised(target, tmp_path):
    drafter = write_model(tmp_path / "drafter")
    quantised = 'kind = "model"\ndrafter_bits = 4\ndrafter_group_size = 32\n'
    write_registry(pairing(target, drafter, f'{quantised}fingerprints.drafter = "x"\n'))
    [found] = [f for f in findings("warning") if "drafter's files changed" in f["what"]]
    assert found["fix"].endswith(f"--drafter {drafter} --drafter-bits 4 --drafter-group-size 32")


def test_a_drafter_whose_tokenizer_drifted_is_broken(target, tmp_path):
    drafter = write_model(tmp_path / "drafter", tokenizer={"model": {"vocab": {"x": 0}}})
    write_registry(pairing(target, drafter, 'kind = "model"\n'))
    assert any(
        "tokenizer: vocabulary: 4 entries against 1" in f["what"] for f in findings("broken")
    )


def test_a_head_that_went_missing_is_broken(target):
    write_registry(pairing(target, "mtp"))
    [found] = findings("broken")
    assert "prediction head" in found["what"]
    assert "--drafter auto" in found["fix"]


def test_a_stored_option_that_shadows_the_registry_is_a_warning(target, llm_user):
    write_registry(pairing(target, more="settings.temperature = 0.2\n"))
    write_json(llm_user / "model_options.json", {"a": {"temperature": "0.9"}})
    [found] = [f for f in findings("warning") if "stored option" in f["what"]]
    assert "temperature = 0.9 shadows 0.2 of the pairing" in found["what"]
    assert found["fix"] == "llm models options clear a temperature"


def test_a_stored_option_that_is_no_value_is_broken_and_the_others_are_checked(target, llm_user):
    write_registry(pairing(target, more="profiles.b.top_k = 3\nsettings.top_k = 2\n"))
    (llm_user / "model_options.json").write_text('{"a": {"temperature": "warm"}}')
    [found] = findings("broken")
    assert (
        "not 'warm'; it is a stored option: llm models options clear a temperature" in found["what"]
    )
    assert any("a/b: the profile's top_k" in f["what"] for f in findings("ok"))


def test_a_pairing_that_does_not_fit_says_what_would(target, monkeypatch):
    write_registry(pairing(target))
    enough = memory.estimate(recognise.read(target), None, 256).total
    monkeypatch.setattr(memory, "budget", lambda *_: memory.Budget(enough, "free memory"))
    [found] = [f for f in findings("warning") if "context fit" in f["what"]]
    assert found["what"].startswith("a: 256 of 512 tokens")
    assert found["fix"] == "llm specdec set a context=256"
    monkeypatch.setattr(memory, "budget", lambda *_: memory.Budget(1, "free memory"))
    assert "not even its weights fit" in findings("broken")[0]["what"]


def test_a_context_beyond_a_table_of_positions_is_broken_and_beyond_others_is_not(tmp_path):
    shapes = trunk()
    for name, table in (("computed", {}), ("table", {"model.wpe.weight": ("F16", (512, 64))})):
        target = write_model(tmp_path / name, shapes=shapes | table)
        write_registry(pairing(target, more="settings.context = 600"))
        said = [f"{f['what']} > {f['fix']}" for f in findings("broken")]
        assert said == [
            "a: context 600 is more than the 512 positions that the model has > "
            "llm specdec set a context=512"
        ] * bool(table)


def test_a_bench_of_another_mlx_is_stale(target):
    write_registry(pairing(target))
    versions = {**machine.versions(), "mlx": "0.0.1"}
    conditions = {"machine": machine.machine(), "versions": versions, "models": {}}
    history = store.Store()
    bench = history.begin(store.Asked("a", None, "none", "cold", 15), conditions)
    history.finish(bench, {"status": "adopted"}, partial=False)
    [found] = [f for f in findings("warning") if "stale" in f["what"]]
    assert "mlx was 0.0.1" in found["what"]
    assert found["fix"] == "llm specdec bench a --gate 15"


def test_logging_that_is_off_is_a_warning(llm_user):
    (llm_user / "logs-off").touch()
    assert "llm logs on" in [f["fix"] for f in findings("warning")]


def disk(free, monkeypatch):
    monkeypatch.setattr(Folder, "free", lambda self: free)
    [found] = [f for f in findings() if "of disk is free" in f["what"]]
    return found["level"], found["what"]


def test_little_disk_turns_the_cache_off_and_is_a_warning(llm_user, monkeypatch):
    assert disk(10**9, monkeypatch) == (
        "warning",
        "1.0 GB of disk is free; prefix cache: 0 KB, off (10 GiB of disk stay free)",
    )


def test_the_cache_is_ok_off_by_choice_and_a_warning_over_its_cap(llm_user, monkeypatch):
    write_registry('[cache]\nlimit = "0"\n')
    assert disk(10**12, monkeypatch)[0] == "ok"
    write_registry('[cache]\nlimit = "1MB"\n')
    assert disk(10**12, monkeypatch)[0] == "ok"
    (llm_user / "specdec" / "cache").mkdir()
    junk = llm_user / "specdec" / "cache" / "junk"
    junk.write_bytes(b"x" * 950_000)
    assert disk(10**12, monkeypatch)[1].endswith("950 KB, at most 1 MB (your limit), nearly full")
    junk.write_bytes(b"x" * 1_950_000)
    assert disk(10**12, monkeypatch)[0] == "warning"


def test_versions_outside_the_tested_range_are_told(llm_user, monkeypatch):
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "9.9" if name == "mlx-lm" else real(name))
    [found] = [f for f in findings("warning") if f["what"].startswith("mlx-lm 9.9")]
    assert found["fix"].startswith("llm install 'mlx-lm")


@pytest.mark.skipif(sys.platform != "linux", reason="mlx brings its backend there")
def test_without_a_backend_doctor_says_so_and_goes_on(llm_user):
    code = (
        "import sys; sys.modules['mlx.core'] = None\n"
        "from llm_specdec.cli import specdec\nspecdec(['doctor'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.count("llm-specdec[cpu]") == 1
    assert "logging is on" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("choice", "fix"),
    [
        ("", "llm install 'llm-specdec[cpu]'"),
        ("off", "unset LLM_SPECDEC_BLAS"),
        ("/no/such/file", "unset LLM_SPECDEC_BLAS"),
    ],
)
def test_a_slow_blas_comes_with_what_mends_it(llm_user, monkeypatch, choice, fix):
    monkeypatch.setenv("LLM_SPECDEC_BLAS", choice)
    monkeypatch.setattr(blas, "preload", lambda: blas.Blas(None, None, "as the test says"))
    [found] = [f for f in findings("warning") if f["what"].startswith("BLAS")]
    assert found["what"] == "BLAS: mlx's own (as the test says)"
    assert found["fix"] == fix
